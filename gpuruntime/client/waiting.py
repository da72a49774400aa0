"""Waiting for a state: poll until an object has it, and raise WaitError if it will not come.

Once a poll has succeeded, polls that fail because the server is away do not end the wait.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import Final, TypeAlias, TypeVar

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
    invocation_success,
    job_readiness,
    pool_readiness,
    storage_readiness,
    unit_readiness,
    unit_suspension,
)
from gpuruntime.models.views.operators import Job
from gpuruntime.models.views.pools import PoolView
from gpuruntime.models.views.serverless import InvocationView
from gpuruntime.models.views.storages import StorageView
from gpuruntime.models.views.units import UnitView

ViewT = TypeVar("ViewT")
Poll: TypeAlias = Callable[[], Awaitable[Reply[ViewT]]]
Judge: TypeAlias = Callable[[ViewT], Judgement]
Tell: TypeAlias = Callable[[ViewT], None]

WAIT_SECONDS: Final = 600.0
FIRST_PAUSE_SECONDS: Final = 0.2
LONGEST_PAUSE_SECONDS: Final = 2.0
_GROWTH: Final = 1.3


async def until_unit_ready(
    client: Client,
    name: str,
    *,
    timeout_seconds: float = WAIT_SECONDS,
    tell: Tell[UnitView] | None = None,
) -> UnitView:
    """Return the ready unit; call `tell` with each view that differs from the one before."""
    return await until(
        lambda: client.units.get(name),
        unit_readiness,
        what=f"unit {name}",
        timeout_seconds=timeout_seconds,
        tell=tell,
    )


async def until_unit_suspended(
    client: Client,
    name: str,
    *,
    timeout_seconds: float = WAIT_SECONDS,
    tell: Tell[UnitView] | None = None,
) -> UnitView:
    return await until(
        lambda: client.units.get(name),
        unit_suspension,
        what=f"unit {name}",
        timeout_seconds=timeout_seconds,
        tell=tell,
    )


async def until_unit_gone(
    client: Client, name: str, *, timeout_seconds: float = WAIT_SECONDS
) -> None:
    await until_gone(
        lambda: client.units.get(name),
        _identity,
        what=f"unit {name}",
        timeout_seconds=timeout_seconds,
    )


async def until_storage_ready(
    client: Client,
    name: str,
    *,
    timeout_seconds: float = WAIT_SECONDS,
    tell: Tell[StorageView] | None = None,
) -> StorageView:
    return await until(
        lambda: client.storages.get(name),
        storage_readiness,
        what=f"storage {name}",
        timeout_seconds=timeout_seconds,
        tell=tell,
    )


async def until_accessor_ready(
    client: Client,
    name: str,
    *,
    timeout_seconds: float = WAIT_SECONDS,
    tell: Tell[StorageView] | None = None,
) -> StorageView:
    return await until(
        lambda: client.storages.get(name),
        accessor_readiness,
        what=f"accessor of storage {name}",
        timeout_seconds=timeout_seconds,
        tell=tell,
    )


async def until_storage_gone(
    client: Client, name: str, *, timeout_seconds: float = WAIT_SECONDS
) -> None:
    await until_gone(
        lambda: client.storages.get(name),
        _identity,
        what=f"storage {name}",
        timeout_seconds=timeout_seconds,
    )


async def until_pool_ready(
    client: Client,
    name: str,
    *,
    timeout_seconds: float = WAIT_SECONDS,
    tell: Tell[PoolView] | None = None,
) -> PoolView:
    return await until(
        lambda: client.pools.get(name),
        pool_readiness,
        what=f"pool {name}",
        timeout_seconds=timeout_seconds,
        tell=tell,
    )


async def until_pool_gone(
    client: Client, name: str, *, timeout_seconds: float = WAIT_SECONDS
) -> None:
    """Wait until the pool is deleted; its unclaimed stock is deleted before it."""
    await until_gone(
        lambda: client.pools.get(name),
        _identity,
        what=f"pool {name}",
        timeout_seconds=timeout_seconds,
    )


async def until_seeded(
    client: Client,
    operation_id: str,
    *,
    timeout_seconds: float = WAIT_SECONDS,
    tell: Tell[Job] | None = None,
) -> Job:
    return await until(
        lambda: client.stock.job(operation_id),
        job_readiness,
        what=f"job {operation_id}",
        timeout_seconds=timeout_seconds,
        tell=tell,
    )


async def until_succeeded(
    client: Client,
    function: str,
    invocation: str,
    *,
    timeout_seconds: float = WAIT_SECONDS,
    tell: Tell[InvocationView] | None = None,
) -> InvocationView:
    """Return the invocation; raise FailedError if it has ended in another state."""
    return await until(
        lambda: client.invocations.get(function, invocation),
        invocation_success,
        what=f"invocation {invocation} of {function}",
        timeout_seconds=timeout_seconds,
        tell=tell,
    )


async def until(
    poll: Poll[ViewT],
    judge: Judge[ViewT],
    *,
    what: str,
    timeout_seconds: float,
    tell: Tell[ViewT] | None = None,
) -> ViewT:
    """Return the first view that is judged done; raise FailedError or NotYetError."""
    notes = ["the server has not answered"]
    try:
        async with asyncio.timeout(timeout_seconds):
            async with aclosing(_views(poll, notes)) as views:
                async for view in views:
                    if tell:
                        tell(view)
                    judgement = judge(view)
                    if judgement.is_done:
                        return view
                    if judgement.is_failed:
                        raise FailedError(what, reason=judgement.reason, message=judgement.message)
                    notes.append(str(judgement))
    except TimeoutError as error:
        raise NotYetError(f"{what}: not done after {timeout_seconds:g} s: {notes[-1]}") from error
    raise AssertionError("looking has no end")


async def _views(poll: Poll[ViewT], notes: list[str]) -> AsyncGenerator[ViewT, None]:
    """Yield each view that differs from the one before; append passing errors to `notes`."""
    last = (await poll()).data
    yield last
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
        if view != last:
            last = view
            yield view


def _identity(view: UnitView | StorageView | PoolView) -> object:
    """Return the values by which a later object of the same name differs."""
    return view.operationID, view.createdAt


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
