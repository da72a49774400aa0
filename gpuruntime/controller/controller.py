"""Workers over a queue, and the one table from the outcome of a reconcile to its requeue."""

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Iterator
from typing import Final, Generic, TypeVar

import attrs
import structlog

from gpuruntime.concurrency.clock import loop_time
from gpuruntime.errors import TerminalError
from gpuruntime.kube.errors import ApiError, ConflictError, KubeError
from gpuruntime.meter import Meter, NullMeter
from gpuruntime.workqueue.queue import QueueShutDownError, WorkQueue

log = structlog.get_logger()

KeyT = TypeVar("KeyT", bound=Hashable)


@attrs.frozen(slots=True)
class Result:
    """Result of a reconcile without an error; None means that only an event requeues the key.

    With a time, an event may still requeue the key sooner.
    """

    requeue_after_seconds: float | None = None

    @classmethod
    def earliest(cls, *seconds: float | None) -> "Result":
        """Return a result with the shortest of the times; None stands for no time."""
        return cls(min((each for each in seconds if each is not None), default=None))


DONE: Final = Result()


class Controller(Generic[KeyT]):
    """Controller reconciles the keys of a queue, and never the same key twice at once."""

    def __init__(
        self,
        name: str,
        queue: WorkQueue[KeyT],
        reconcile: Callable[[KeyT], Awaitable[Result]],
        *,
        workers: int,
        meter: Meter = NullMeter(),
    ) -> None:
        self.name = name
        self._queue = queue
        self._reconcile = reconcile
        self._workers = workers
        self._meter = meter
        # Set while no worker runs.
        self._is_at_rest = asyncio.Event()
        self._is_at_rest.set()

    async def run(self) -> None:
        """Run until cancelled, or until the queue is shut down and each worker is finished."""
        self._is_at_rest.clear()
        try:
            async with asyncio.TaskGroup() as tasks:
                for number in range(self._workers):
                    tasks.create_task(self._work(), name=f"{self.name}-worker-{number}")
        finally:
            self._is_at_rest.set()

    async def drain(self) -> None:
        """Take no more keys, and return when every worker has finished its key."""
        self._queue.shut_down()
        await self._is_at_rest.wait()

    async def _work(self) -> None:
        while True:
            try:
                key = await self._queue.get()
            except QueueShutDownError:
                return
            try:
                with structlog.contextvars.bound_contextvars(controller=self.name, key=str(key)):
                    await self._serve(key)
            finally:
                self._queue.done(key)
            # A reconcile that finds nothing to do never awaits. Without this pause, a long queue
            # of such keys would block the loop to its end.
            await asyncio.sleep(0)

    async def _serve(self, key: KeyT) -> None:
        started_at = loop_time()
        outcome = self._settle(key, await self._attempt(key))
        self._meter.count("reconciles_total", controller=self.name, outcome=outcome)
        seconds = loop_time() - started_at
        self._meter.observe("reconcile_seconds", seconds, controller=self.name)

    async def _attempt(self, key: KeyT) -> Result | BaseException:
        try:
            return await self._reconcile(key)
        except Exception as error:  # noqa: BLE001  # the table below logs and retries every error
            return error
        except asyncio.CancelledError as error:
            if _is_being_cancelled():
                raise
            # A task that the reconcile awaited was cancelled, not this worker, which goes on.
            return error

    def _settle(self, key: KeyT, outcome: Result | BaseException) -> str:
        """Requeue the key by its outcome, and return the outcome's name for the metric."""
        if isinstance(outcome, Result):
            self._queue.forget(key)
            if outcome.requeue_after_seconds is None:
                return "done"
            self._queue.add_after(key, outcome.requeue_after_seconds)
            return "requeued"
        worst = gravest(outcome)
        match worst:
            case TerminalError():
                self._queue.forget(key)
                log.warning("given up until the object changes", error=str(worst))
                return "terminal"
            case ConflictError():
                seconds = self._queue.add_rate_limited(key)
                log.debug("view was stale", error=str(worst), retry_in_seconds=seconds)
                return "conflict"
            case KubeError():
                asked = retry_after_seconds(outcome)
                seconds = self._queue.add_rate_limited(key, at_least_seconds=asked)
                log.warning("cluster request failed", error=str(worst), retry_in_seconds=seconds)
                return "cluster_error"
            case _:
                seconds = self._queue.add_rate_limited(key)
                log.error("reconcile failed", exc_info=outcome, retry_in_seconds=seconds)
                return "failed"


def _is_being_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def gravest(error: BaseException) -> BaseException:
    """Return the error, or the gravest leaf of a group, which decides about the retry.

    A terminal error decides only if there is no other, since a retry may still help the others.
    """
    return max(_leaves(error), key=_gravity)


def retry_after_seconds(error: BaseException) -> float:
    """Return the longest Retry-After of all errors of a group; 0 without one."""
    asked = (leaf.retry_after_seconds for leaf in _leaves(error) if isinstance(leaf, ApiError))
    return max((seconds for seconds in asked if seconds is not None), default=0.0)


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from _leaves(inner)
    else:
        yield error


def _gravity(error: BaseException) -> int:
    match error:
        case TerminalError():
            return 0
        case ConflictError():
            return 1
        case KubeError():
            return 2
        case _:
            return 3
