"""Attempts that exclude each other, and calls whose result is shared by all waiting callers."""

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from types import TracebackType
from typing import Any, Generic, TypeVar

import structlog

ResultT = TypeVar("ResultT")

log = structlog.get_logger()


class SingleFlight:
    """Attempts of one operation run one after another, each to its end.

    An attempt goes on if its caller is cancelled. The tasks belong to a role, which lets them end
    before it ends itself. `refused` makes the error if the group accepts no more tasks, and
    `unknown` the error of an attempt that is cancelled with the group.
    """

    def __init__(
        self,
        tasks: asyncio.TaskGroup,
        *,
        refused: Callable[[], Exception],
        unknown: Callable[[], Exception],
    ) -> None:
        self._tasks = tasks
        self._refused = refused
        self._unknown = unknown
        self._running: dict[str, asyncio.Future[Any]] = {}

    async def run(self, operation: str, attempt: Callable[[], Awaitable[ResultT]]) -> ResultT:
        """Make the attempt after all earlier ones of the operation. Return its result."""
        while before := self._running.get(operation):
            await asyncio.wait([before])
        outcome: asyncio.Future[ResultT] = asyncio.get_running_loop().create_future()
        conduct = self._conduct(operation, attempt, outcome)
        try:
            self._tasks.create_task(conduct, name=f"operation {operation}")
        except RuntimeError as error:  # the group accepts no more tasks
            conduct.close()
            raise self._refused() from error
        self._running[operation] = outcome
        return await self._outcome_of(operation, outcome)

    async def _conduct(
        self,
        operation: str,
        attempt: Callable[[], Awaitable[ResultT]],
        outcome: "asyncio.Future[ResultT]",
    ) -> None:
        try:
            with _Handover(outcome, self._unknown):
                outcome.set_result(await attempt())
        finally:
            del self._running[operation]

    async def _outcome_of(self, operation: str, outcome: "asyncio.Future[ResultT]") -> ResultT:
        try:
            return await asyncio.shield(outcome)
        except asyncio.CancelledError:
            if not outcome.done():
                outcome.add_done_callback(lambda ended: _log_unheard(operation, ended))
            raise


class SharedCalls(Generic[ResultT]):
    """Concurrent callers of a key share one call and its result.

    Errors of the given kind are shared like results. If the call ends in any other way, its future
    is cancelled, and one of the waiting callers leads the next call.
    """

    def __init__(self, shared_error: type[Exception]) -> None:
        self._shared_error = shared_error
        self._in_flight: dict[Hashable, asyncio.Future[ResultT]] = {}

    def __len__(self) -> int:
        return len(self._in_flight)

    def in_flight(self, key: Hashable) -> "asyncio.Future[ResultT] | None":
        return self._in_flight.get(key)

    async def lead(self, key: Hashable, call: Callable[[], Awaitable[ResultT]]) -> ResultT:
        """Make the call, which must not be in flight already, and share its outcome."""
        future = self._in_flight[key] = asyncio.get_running_loop().create_future()
        try:
            result = await call()
        except self._shared_error as error:
            future.set_exception(error)
            future.exception()  # marks it as retrieved, also if no other caller waits
            raise
        else:
            future.set_result(result)
            return result
        finally:
            del self._in_flight[key]
            future.cancel()


class _Handover(Generic[ResultT]):
    """An error of an attempt is raised to its caller and not to the task group."""

    def __init__(
        self, outcome: "asyncio.Future[ResultT]", unknown: Callable[[], Exception]
    ) -> None:
        self._outcome = outcome
        self._unknown = unknown

    def __enter__(self) -> None:
        pass

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        if error is None:
            return False
        if isinstance(error, Exception):
            self._outcome.set_exception(error)
            return True
        self._outcome.set_exception(self._unknown())
        return False


def _log_unheard(operation: str, ended: "asyncio.Future[Any]") -> None:
    if error := ended.exception():
        log.warning("operation failed unheard", operation=operation, error=repr(error))
