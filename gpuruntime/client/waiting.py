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
    Standing,
    accessor_on_its_way_to_ready,
    invocation_on_its_way_to_success,
    job_on_its_way_to_ready,
    pool_on_its_way_to_ready,
    storage_on_its_way_to_ready,
    unit_on_its_way_to_ready,
    unit_on_its_way_to_suspended,
)
from gpuruntime.models.views.operators import Job
from gpuruntime.models.views.pools import PoolView
from gpuruntime.models.views.serverless import InvocationView
from gpuruntime.models.views.storages import StorageView
from gpuruntime.models.views.units import UnitView

ViewT = TypeVar("ViewT")
Look: TypeAlias = Callable[[], Awaitable[Reply[ViewT]]]
Judge: TypeAlias = Callable[[ViewT], Standing]
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
        unit_on_its_way_to_ready,
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
        unit_on_its_way_to_suspended,
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
        storage_on_its_way_to_ready,
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
        accessor_on_its_way_to_ready,
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
        pool_on_its_way_to_ready,
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
        job_on_its_way_to_ready,
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
        invocation_on_its_way_to_success,
        what=f"invocation {invocation} of {function}",
        timeout_seconds=timeout_seconds,
        tell=tell,
    )


async def until(
    look: Look[ViewT],
    judge: Judge[ViewT],
    *,
    what: str,
    timeout_seconds: float,
    tell: Tell[ViewT] | None = None,
) -> ViewT:
    """Return the first view that is judged done; raise FailedError or NotYetError."""
    words = ["the server has not answered"]
    try:
        async with asyncio.timeout(timeout_seconds):
            async with aclosing(_views(look, words)) as views:
                async for view in views:
                    if tell:
                        tell(view)
                    standing = judge(view)
                    if standing.is_done:
                        return view
                    if standing.is_failed:
                        raise FailedError(what, reason=standing.reason, message=standing.message)
                    words.append(str(standing))
    except TimeoutError as error:
        raise NotYetError(f"{what}: not done after {timeout_seconds:g} s: {words[-1]}") from error
    raise AssertionError("looking has no end")


async def _views(look: Look[ViewT], words: list[str]) -> AsyncGenerator[ViewT, None]:
    """Yield each view that differs from the one before; append passing errors to `words`."""
    last = (await look()).data
    yield last
    pause = FIRST_PAUSE_SECONDS
    while True:
        await asyncio.sleep(pause)
        pause = min(LONGEST_PAUSE_SECONDS, pause * _GROWTH)
        try:
            view = (await look()).data
        except ClientError as error:
            if error.certainty is Certainty.ANSWERED:
                raise
            words.append(str(error))
            continue
        if view != last:
            last = view
            yield view


def _identity(view: UnitView | StorageView | PoolView) -> object:
    """Return the values by which a later object of the same name differs."""
    return view.operationID, view.createdAt


async def until_gone(
    look: Look[ViewT],
    identity: Callable[[ViewT], object],
    *,
    what: str,
    timeout_seconds: float,
) -> None:
    """Wait until the object is not found, or another one has its name."""
    first: list[object] = []

    def is_another(view: ViewT) -> Standing:
        first.append(identity(view))
        return Standing(is_done=first[0] != first[-1], reason="it still exists")

    try:
        await until(look, is_another, what=what, timeout_seconds=timeout_seconds)
    except NotFoundError:
        return
