from random import Random

import pytest

from gpuruntime.informer.recovery import (
    FIRST_DELAY_SECONDS,
    LONGEST_DELAY_SECONDS,
    MOST_STALE_LISTS,
    Empty,
    EventReceived,
    Health,
    Listed,
    ListFailed,
    ListRead,
    Outcome,
    PageRead,
    StaleListError,
    State,
    StoreDiverged,
    Watching,
    WindowEnded,
    WindowOpened,
    advance,
    is_failure,
    judge_list,
)
from gpuruntime.kube.errors import (
    BadRequestError,
    ExpiredError,
    ForbiddenError,
    KubeError,
    MalformedAnswerError,
    SilentWatchError,
    ThrottledError,
    UnavailableError,
    UnreachableError,
)

EXPIRED = ExpiredError("too old", 410)
THROTTLED = ThrottledError("later", 429, retry_after_seconds=7.0)
UNREACHABLE = UnreachableError("refused")
FORBIDDEN = ForbiddenError("no", 403)
UNAVAILABLE = UnavailableError("etcd has no leader", 500)
MALFORMED = MalformedAnswerError("html")
SILENT = SilentWatchError("no word")
BAD_REQUEST = BadRequestError("invalid resource version", 400)


def ended(
    error: KubeError | None = None, *, lived: float = 0.0, has_advanced: bool = False
) -> WindowEnded:
    return WindowEnded(lived_seconds=lived, has_advanced=has_advanced, error=error)


@pytest.mark.parametrize(
    ("state", "outcome", "expected"),
    [
        (Empty(), PageRead(continue_token="a"), Empty(continue_token="a")),
        (Empty(continue_token="a"), ListRead(version=5), Listed(version=5)),
        (Empty(continue_token="a"), ListFailed(error=EXPIRED), Empty()),
        (Empty(continue_token="a"), ListFailed(error=THROTTLED), Empty(continue_token="a")),
        (Empty(continue_token="a"), ListFailed(error=UNREACHABLE), Empty(continue_token="a")),
        (Empty(), ListFailed(error=FORBIDDEN), Empty()),
        (
            Empty(continue_token="a"),
            ListFailed(error=StaleListError("old")),
            Empty(stale_lists=1),
        ),
        (Listed(version=5), WindowOpened(), Watching(version=5)),
        (Listed(version=5), ended(EXPIRED), Empty()),
        (Listed(version=5), ended(BAD_REQUEST), Empty()),
        (Listed(version=5), ended(THROTTLED), Listed(version=5)),
        (Listed(version=5), ended(UNREACHABLE), Listed(version=5)),
        (Listed(version=5), ended(UNAVAILABLE), Listed(version=5)),
        (Listed(version=5), ended(FORBIDDEN), Listed(version=5)),
        (Listed(version=5), ended(MALFORMED), Listed(version=5)),
        (Watching(version=5), EventReceived(version=7), Watching(version=7)),
        (Watching(version=5), EventReceived(version=4), Watching(version=5)),
        (Watching(version=5, refusals=1), EventReceived(version=7), Watching(version=7)),
        (Watching(version=5), ended(), Listed(version=5)),
        (Watching(version=5), ended(UNREACHABLE), Listed(version=5)),
        (Watching(version=5), ended(THROTTLED), Listed(version=5)),
        (Watching(version=5), ended(EXPIRED), Empty()),
        (Watching(version=5), ended(UNAVAILABLE), Listed(version=5, refusals=1)),
        (Watching(version=5), ended(MALFORMED), Listed(version=5, refusals=1)),
        (Watching(version=5), ended(SILENT), Listed(version=5, refusals=1)),
        (Listed(version=5, refusals=1), WindowOpened(), Watching(version=5, refusals=1)),
        (Watching(version=5, refusals=1), ended(UNAVAILABLE), Empty()),
        (Watching(version=5, refusals=1), ended(SILENT), Empty()),
        (Watching(version=5), StoreDiverged(), Empty()),
    ],
    ids=[
        "a page continues the list",
        "the last page ends the list",
        "an expired token restarts the list",
        "a throttled page keeps its token",
        "an unreachable server keeps the token",
        "a forbidden list starts again",
        "a stale list is counted",
        "an open window is watched",
        "an expired version is dropped",
        "a version that the server rejects is dropped",
        "a throttled watch keeps its version",
        "an unreachable server keeps the version",
        "an unavailable server keeps the version",
        "a forbidden watch keeps its version",
        "a malformed answer keeps the version",
        "an event moves the version",
        "an older event does not move it",
        "an event clears refusals",
        "a window that ends keeps the version",
        "a broken connection is no refusal",
        "a throttled window is no refusal",
        "an expired window drops the version",
        "an error in the window is a refusal",
        "a malformed event is a refusal",
        "a silent window is a refusal",
        "an open window keeps refusals",
        "a second refusal by an error drops the version",
        "a second refusal by silence drops the version",
        "a diverged store is listed again",
    ],
)
def test_each_outcome_leads_to_one_state(state: State, outcome: Outcome, expected: State) -> None:
    assert advance(state, outcome) == expected


def test_a_stale_list_is_refused_until_the_server_has_repeated_it() -> None:
    state: State = Empty()
    for _ in range(MOST_STALE_LISTS):
        assert isinstance(state, Empty)
        outcome = judge_list(state, version=50, known_version=90)
        assert isinstance(outcome, ListFailed)
        state = advance(state, outcome)
    assert isinstance(state, Empty)
    assert judge_list(state, version=50, known_version=90) == ListRead(version=50)


def test_a_list_at_the_known_version_is_accepted() -> None:
    assert judge_list(Empty(), version=90, known_version=90) == ListRead(version=90)


@pytest.mark.parametrize(
    ("outcome", "expected"),
    [
        (ended(lived=0.5), True),
        (ended(lived=1.5), False),
        (ended(lived=0.5, has_advanced=True), False),
        (ended(UNREACHABLE, lived=300), True),
        (ListFailed(error=FORBIDDEN), True),
        (ListRead(version=5), False),
        (StoreDiverged(), False),
    ],
    ids=[
        "short window",
        "long window",
        "short window with an event",
        "long window that broke",
        "failed list",
        "complete list",
        "diverged store",
    ],
)
def test_a_window_of_less_than_a_second_without_an_event_is_a_failure(
    outcome: Outcome, expected: bool
) -> None:
    assert is_failure(outcome) is expected


def test_the_back_off_doubles_from_the_first_delay_to_the_longest() -> None:
    longest = []
    health = Health()
    for _ in range(12):
        health = health.after(ended(UNREACHABLE))
        rng = Random(1)
        drawn = [health.delay_seconds(ended(UNREACHABLE), rng) for _ in range(400)]
        assert min(drawn) < 0.05 * max(drawn), "full jitter begins at zero"
        longest.append(max(drawn))
    expected = [min(FIRST_DELAY_SECONDS * 2**n, LONGEST_DELAY_SECONDS) for n in range(12)]
    assert longest == pytest.approx(expected, rel=0.05)


def test_retry_after_is_added_to_the_back_off() -> None:
    health = Health().after(ended(THROTTLED))
    delays = [health.delay_seconds(ended(THROTTLED), Random(seed)) for seed in range(50)]
    assert min(delays) >= 7.0
    assert max(delays) <= 7.0 + FIRST_DELAY_SECONDS


def test_failures_are_forgotten_after_two_healthy_minutes_in_one_or_several_windows() -> None:
    health = Health(failures=6)
    assert health.after(ended(UNREACHABLE, lived=119)).failures == 7
    assert health.after(ended(UNREACHABLE, lived=121)).failures == 1
    assert health.after(ended(lived=121)).failures == 0
    assert health.after(ended(lived=61)).after(ended(UNREACHABLE, lived=61)).failures == 1


def test_a_window_that_ended_in_order_is_followed_at_once_by_the_next() -> None:
    assert Health().delay_seconds(ended(lived=300), Random(1)) == 0


def test_short_windows_with_events_are_at_least_a_second_apart() -> None:
    assert Health().delay_seconds(ended(lived=0.2, has_advanced=True), Random(1)) == 0.8
