"""Polling until a condition holds, with the last value in the failure.

Use it only for changes that set no event, such as those of another process or of the broker.
"""

import asyncio
import inspect
import operator
import time
from collections.abc import Awaitable, Callable
from functools import partial
from subprocess import SubprocessError
from typing import Any, TypeVar, overload

T = TypeVar("T")
Errors = type[Exception] | tuple[type[Exception], ...]


def equals(wanted: object) -> Callable[[object], bool]:
    return partial(operator.eq, wanted)


@overload
async def eventually(
    look: Callable[[], Awaitable[T]],
    holds: Callable[[T], object] = bool,
    *,
    within_seconds: float = ...,
    poll_seconds: float = ...,
    despite: Errors = ...,
    explain: Callable[[], str] = ...,
) -> T: ...
@overload
async def eventually(
    look: Callable[[], T],
    holds: Callable[[T], object] = bool,
    *,
    within_seconds: float = ...,
    poll_seconds: float = ...,
    despite: Errors = ...,
    explain: Callable[[], str] = ...,
) -> T: ...
async def eventually(
    look: Callable[[], Any],
    holds: Callable[[Any], object] = bool,
    *,
    within_seconds: float = 20.0,
    poll_seconds: float = 0.01,
    despite: Errors = (),
    explain: Callable[[], str] = str,
) -> Any:
    """Return the first value of `look` for which `holds` is true; `look` may be async.

    Seconds are those of the event loop, so virtual time works. Errors in `despite` count as
    values that do not hold; other errors are raised at once. After `within_seconds` a running
    look is cancelled and AssertionError reports the last value or error, with `explain()`.
    """
    last: tuple[object, ...] = ()
    bound = asyncio.timeout(within_seconds)
    try:
        async with bound:
            while True:
                try:
                    seen = look()
                    if inspect.isawaitable(seen):
                        seen = await seen
                    last = (seen,)
                    if holds(seen):
                        return seen
                except despite as error:
                    last = (error,)
                await asyncio.sleep(poll_seconds)
    except TimeoutError:
        if not bound.expired():
            raise
    raise AssertionError(_message(within_seconds, last, explain))


def eventually_blocking(
    look: Callable[[], T],
    holds: Callable[[T], object] = bool,
    *,
    within_seconds: float = 60.0,
    poll_seconds: float = 0.05,
    despite: Errors = (OSError, SubprocessError),
    explain: Callable[[], str] = str,
) -> T:
    """Do what `eventually` does, for tests without an event loop; a look is never cut short.

    By default, failed connections, missing files and failed commands count as not yet.
    """
    deadline = time.monotonic() + within_seconds
    last: tuple[object, ...]
    while True:
        try:
            seen = look()
            last = (seen,)
            if holds(seen):
                return seen
        except despite as error:
            last = (error,)
        if time.monotonic() > deadline:
            raise AssertionError(_message(within_seconds, last, explain))
        time.sleep(poll_seconds)


def _message(seconds: float, last: tuple[object, ...], explain: Callable[[], str]) -> str:
    seen = f"last seen: {last[0]!r}" if last else "no look returned"
    return f"not within {seconds:g} s; {seen}\n{explain()}".rstrip()
