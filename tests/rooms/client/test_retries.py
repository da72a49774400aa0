"""A table of requests and errors: which requests are retried, and when."""

import pytest

from gpuruntime.client.errors import (
    BusyError,
    ClientError,
    ConflictError,
    DeadlineError,
    GatewayError,
    LostAnswerError,
    ProblemError,
    UnreachableServerError,
    UnreadableAnswerError,
    UntrustedServerError,
)
from gpuruntime.client.retries import LONGEST_PAUSE_SECONDS, Repeat, may_repeat, pause_seconds
from tests.row_ids import in_words


def told(kind: type[ProblemError], status: int) -> ProblemError:
    return kind("words", status=status, code="code")


UNDONE = [UnreachableServerError("no"), told(BusyError, 503), told(BusyError, 429)]
UNKNOWN = [LostAnswerError("no"), GatewayError("no"), told(DeadlineError, 504)]
FINAL = [
    told(ConflictError, 409),
    told(ProblemError, 500),
    UnreadableAnswerError("no"),
    UntrustedServerError("no"),
]


@pytest.mark.parametrize("error", UNDONE, ids=in_words)
def test_a_request_that_was_not_done_is_retried_unless_its_body_is_used_up(
    error: ClientError,
) -> None:
    again = [each for each in Repeat if may_repeat(each, error)]
    assert again == [Repeat.ALWAYS, Repeat.UNDONE]


@pytest.mark.parametrize("error", UNKNOWN, ids=in_words)
def test_a_request_that_may_have_been_done_is_retried_only_if_repeatable(
    error: ClientError,
) -> None:
    again = [each for each in Repeat if may_repeat(each, error)]
    assert again == [Repeat.ALWAYS]


@pytest.mark.parametrize("error", FINAL, ids=in_words)
def test_a_definite_answer_is_never_retried(error: ClientError) -> None:
    assert not [each for each in Repeat if may_repeat(each, error)]


def test_pauses_grow_to_a_bound_and_spread() -> None:
    pauses = [pause_seconds(n, asked_seconds=None, fraction=1.0) for n in range(1, 12)]
    assert pauses == sorted(pauses)
    assert pauses[:3] == [0.2, 0.4, 0.8]
    assert pauses[-1] == LONGEST_PAUSE_SECONDS
    assert pause_seconds(1, asked_seconds=None, fraction=0.0) == 0.1


def test_a_pause_is_never_shorter_than_the_server_asked_for() -> None:
    assert pause_seconds(1, asked_seconds=7.0, fraction=0.5) == 7.0
    assert pause_seconds(9, asked_seconds=1.0, fraction=1.0) == LONGEST_PAUSE_SECONDS
