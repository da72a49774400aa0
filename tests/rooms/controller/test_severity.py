"""Of several errors the one decides that a retry has to fear most."""

from itertools import permutations

import pytest

from gpuruntime.controller.severity import gravest, retry_after_seconds
from gpuruntime.errors import TerminalError
from gpuruntime.kube.errors import ConflictError, ThrottledError, UnreachableError

BY_GRAVITY = [
    TerminalError("bad spec"),
    ConflictError("stale"),
    UnreachableError("no route"),
    ValueError("a bug"),
]


@pytest.mark.parametrize("error", BY_GRAVITY)
def test_an_error_alone_decides(error: Exception) -> None:
    assert gravest(error) is error
    assert gravest(ExceptionGroup("", [ExceptionGroup("", [error])])) is error


@pytest.mark.parametrize("count", [2, 3, 4])
def test_the_order_within_a_group_does_not_matter(count: int) -> None:
    for errors in permutations(BY_GRAVITY[:count]):
        assert gravest(ExceptionGroup("", errors)) is BY_GRAVITY[count - 1]


def test_the_longest_wait_that_a_group_asks_for_is_honoured() -> None:
    throttled = [
        ThrottledError("", retry_after_seconds=2),
        ThrottledError("", retry_after_seconds=5),
        ThrottledError("", retry_after_seconds=None),
        UnreachableError(""),
    ]

    assert retry_after_seconds(ExceptionGroup("", throttled)) == 5


def test_who_asks_for_no_wait_gets_none() -> None:
    assert retry_after_seconds(UnreachableError("")) == 0
    assert retry_after_seconds(ThrottledError("")) == 0
