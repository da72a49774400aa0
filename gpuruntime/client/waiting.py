"""Waiting for a state: poll until an object has it, and raise WaitError if it will not come.

Once a poll has succeeded, polls that fail because the server is away do not end the wait.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import Final, Generic, TypeAlias, TypeVar

import attrs

from gpuruntime.client.client import Client
from gpuruntime.client.errors import (
    Certainty,
    ClientError,
    FailedError,
    NotFoundError,
    NotYetError,
)
from gpuruntime.client.messages import Reply
from gpuruntime.client.progress import (
    Judgement,
    accessor_readiness,
    invocation_end,
    invocation_success,
    job_readiness,
    pool_readiness,
    storage_readiness,
    unit_readiness,
    unit_suspension,
)
from gpuruntime.models.views.pools import PoolView
from gpuruntime.models.views.storages import StorageView
from gpuruntime.models.views.units import UnitView

ViewT = TypeVar("ViewT")
ObjectT = TypeVar("ObjectT", UnitView, StorageView, PoolView)
Poll: TypeAlias = Callable[[], Awaitable[Reply[ViewT]]]
Judge: TypeAlias = Callable[[ViewT], Judgement]
Tell: TypeAlias = Callable[[ViewT], None]

WAIT_SECONDS: Final = 600.0
FIRST_PAUSE_SECONDS: Final = 0.2
LONGEST_PAUSE_SECONDS: Final = 2.0
_GROWTH: Final = 1.3


@attrs.frozen(slots=True)
class UntilState(Generic[ViewT]):
    """Waits for one state of one kind of object; call it with the client and the object's name.

    It returns the view, and calls `tell` with each view that differs from the one before.
    """

    what: str
    get: Callable[[Client], Callable[..., Awaitable[Reply[ViewT]]]]
    judge: Judge[ViewT]

    async def __call__(
        self,
        client: Client,
        *names: str,
        timeout_seconds: float = WAIT_SECONDS,
        stable_seconds: float = 0.0,
        tell: Tell[ViewT] | None = None,
    ) -> ViewT:
        return await until(
            lambda: self.get(client)(*names),
            self.judge,
            what=self.what.format(*names),
            timeout_seconds=timeout_seconds,
            stable_seconds=stable_seconds,
            tell=tell,
        )


@attrs.frozen(slots=True)
class UntilGone(Generic[ObjectT]):
    """Waits until one kind of object is deleted; call it with the client and the object's name."""

    what: str
    get: Callable[[Client], Callable[[str], Awaitable[Reply[ObjectT]]]]

    async def __call__(
        self, client: Client, name: str, *, timeout_seconds: float = WAIT_SECONDS
    ) -> None:
        await until_gone(
            lambda: self.get(client)(name),
            lambda view: (view.operationID, view.createdAt),
            what=self.what.format(name),
            timeout_seconds=timeout_seconds,
        )


until_unit_ready: Final = UntilState("unit {}", lambda client: client.units.get, unit_readiness)
until_unit_suspended: Final = UntilState(
    "unit {}", lambda client: client.units.get, unit_suspension
)
until_unit_gone: Final = UntilGone("unit {}", lambda client: client.units.get)
until_storage_ready: Final = UntilState(
    "storage {}", lambda client: client.storages.get, storage_readiness
)
until_accessor_ready: Final = UntilState(
    "accessor of storage {}", lambda client: client.storages.get, accessor_readiness
)
until_storage_gone: Final = UntilGone("storage {}", lambda client: client.storages.get)
until_pool_ready: Final = UntilState("pool {}", lambda client: client.pools.get, pool_readiness)
# The pool's unclaimed stock is deleted before it.
until_pool_gone: Final = UntilGone("pool {}", lambda client: client.pools.get)
until_seeded: Final = UntilState("job {}", lambda client: client.stock.job, job_readiness)
# These take the function and the invocation; success raises FailedError at any other end.
until_ended: Final = UntilState(
    "invocation {1} of {0}", lambda client: client.invocations.get, invocation_end
)
until_succeeded: Final = UntilState(
    "invocation {1} of {0}", lambda client: client.invocations.get, invocation_success
)


async def until(
    poll: Poll[ViewT],
    judge: Judge[ViewT],
    *,
    what: str,
    timeout_seconds: float,
    stable_seconds: float = 0.0,
    tell: Tell[ViewT] | None = None,
) -> ViewT:
    """Return a view once all polls of the last `stable_seconds` were judged done.

    Raise FailedError or NotYetError if that does not come.
    """
    notes = ["the server has not answered"]
    clock = asyncio.get_running_loop().time
    last: ViewT | None = None
    done: tuple[Judgement, float] | None = None
    try:
        async with asyncio.timeout(timeout_seconds):
            async with aclosing(_views(poll, notes)) as views:
                async for view in views:
                    if tell and view != last:
                        tell(view)
                    last, judgement = view, judge(view)
                    if judgement.is_failed:
                        raise FailedError(what, reason=judgement.reason, message=judgement.message)
                    if not judgement.is_done:
                        notes.append(str(judgement))
                        done = None
                        continue
                    if done is None or done[0] != judgement:
                        done = (judgement, clock())
                    if clock() - done[1] >= stable_seconds:
                        return view
                    notes.append(f"it has to stay so for {stable_seconds:g} s")
    except TimeoutError as error:
        raise NotYetError(f"{what}: not done after {timeout_seconds:g} s: {notes[-1]}") from error
    raise AssertionError("looking has no end")


async def _views(poll: Poll[ViewT], notes: list[str]) -> AsyncGenerator[ViewT, None]:
    """Yield the view of each poll; append passing errors to `notes`."""
    yield (await poll()).data
    pause = FIRST_PAUSE_SECONDS
    while True:
        await asyncio.sleep(pause)
        pause = min(LONGEST_PAUSE_SECONDS, pause * _GROWTH)
        try:
            view = (await poll()).data
        except ClientError as error:
            if error.certainty is Certainty.ANSWERED:
                raise
            notes.append(str(error))
            continue
        yield view


async def until_gone(
    poll: Poll[ViewT],
    identity: Callable[[ViewT], object],
    *,
    what: str,
    timeout_seconds: float,
) -> None:
    """Wait until the object is not found, or another one has its name."""
    first: list[object] = []

    def is_another(view: ViewT) -> Judgement:
        first.append(identity(view))
        return Judgement(is_done=first[0] != first[-1], reason="it still exists")

    try:
        await until(poll, is_another, what=what, timeout_seconds=timeout_seconds)
    except NotFoundError:
        return
