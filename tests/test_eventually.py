"""Tests of `eventually` and its blocking twin: return values, and what failures report."""

import asyncio
import re
import subprocess
import time
from collections.abc import Awaitable, Callable, Iterator

import pytest

from tests.eventually import equals, eventually, eventually_blocking

virtual = pytest.mark.looptime


def counter(start: int = 0) -> Callable[[], int]:
    numbers: Iterator[int] = iter(range(start, 1_000_000))
    return lambda: next(numbers)


def failing(*errors: Exception, then: int) -> Callable[[], int]:
    left = list(errors)

    def look() -> int:
        if left:
            raise left.pop(0)
        return then

    return look


@virtual
async def test_the_first_true_value_is_returned() -> None:
    assert await eventually(counter()) == 1


@virtual
async def test_the_first_value_that_holds_is_returned() -> None:
    assert await eventually(counter(), lambda seen: seen > 4) == 5
    assert await eventually(counter(), equals(7)) == 7


@virtual
async def test_an_async_look_is_awaited() -> None:
    count = counter()

    async def look() -> int:
        await asyncio.sleep(1)
        return count()

    assert await eventually(look, equals(3)) == 3


@virtual
async def test_a_value_that_holds_at_once_costs_no_time() -> None:
    began = asyncio.get_running_loop().time()
    await eventually(lambda: True)
    assert asyncio.get_running_loop().time() == began


@virtual
async def test_a_failure_reports_the_bound_and_the_last_value() -> None:
    text = re.escape("not within 300 s; last seen: {'phase': 'Pending'}")
    began = asyncio.get_running_loop().time()
    with pytest.raises(AssertionError, match=f"^{text}$"):
        await eventually(lambda: {"phase": "Pending"}, lambda _: False, within_seconds=300)
    assert asyncio.get_running_loop().time() == began + 300


@virtual
async def test_a_failure_reports_the_last_error_and_the_explanation() -> None:
    with pytest.raises(AssertionError, match=r"last seen: KeyError\('x'\)\nsee the log$"):
        await eventually(
            lambda: dict[str, str]()["x"], despite=KeyError, explain=lambda: "see the log"
        )


@virtual
async def test_an_unexpected_error_is_raised_at_once() -> None:
    with pytest.raises(ValueError, match="odd"):
        await eventually(failing(ValueError("odd"), then=1), despite=KeyError)


@virtual
async def test_a_look_after_an_expected_error_may_hold() -> None:
    assert await eventually(failing(KeyError(), KeyError(), then=9), despite=KeyError) == 9


@virtual
@pytest.mark.parametrize("despite", [(), Exception], ids=["no errors", "every error"])
async def test_a_look_that_never_returns_is_cancelled(
    despite: tuple[()] | type[Exception],
) -> None:
    def look() -> Awaitable[bool]:
        return asyncio.Event().wait()

    with pytest.raises(AssertionError, match=r"^not within 20 s; no look returned$"):
        await eventually(look, despite=despite)


@virtual
async def test_a_timeout_of_the_look_itself_stays_a_timeout() -> None:
    with pytest.raises(TimeoutError, match="the look"):
        await eventually(failing(TimeoutError("the look"), then=1))


@virtual
async def test_cancellation_ends_the_wait() -> None:
    async with asyncio.TaskGroup() as tasks:
        waiting = tasks.create_task(eventually(lambda: False))
        await asyncio.sleep(1)
        waiting.cancel()
    assert waiting.cancelled()


async def test_real_time_passes_between_looks() -> None:
    began = time.monotonic()
    with pytest.raises(AssertionError, match=r"not within 0.05 s; last seen: \d+"):
        await eventually(counter(), equals(-1), within_seconds=0.05, poll_seconds=0.01)
    assert time.monotonic() - began >= 0.05


def test_the_blocking_twin_returns_the_first_value_that_holds() -> None:
    assert eventually_blocking(counter(), poll_seconds=0.001) == 1
    assert eventually_blocking(counter(), equals(3), poll_seconds=0.001) == 3


def test_the_blocking_twin_retries_failed_connections_and_commands() -> None:
    look = failing(ConnectionRefusedError(), subprocess.CalledProcessError(1, "x"), then=4)
    assert eventually_blocking(look, poll_seconds=0.001) == 4


def test_the_blocking_twin_reports_the_last_value_or_error() -> None:
    with pytest.raises(AssertionError, match=r"not within 0.01 s; last seen: 0\nits log$"):
        eventually_blocking(
            lambda: 0, within_seconds=0.01, poll_seconds=0.001, explain=lambda: "its log"
        )
    with pytest.raises(AssertionError, match=r"last seen: OSError\('away'\)$"):
        eventually_blocking(
            failing(*[OSError("away")] * 1000, then=1), within_seconds=0.01, poll_seconds=0.001
        )


def test_the_blocking_twin_raises_unexpected_errors_at_once() -> None:
    with pytest.raises(ValueError, match="odd"):
        eventually_blocking(failing(ValueError("odd"), then=1))
