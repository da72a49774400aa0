"""Leaders change over one Lease, and at most one leads at any moment."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from random import Random

import pytest

from gpuruntime.kube.client import Client
from gpuruntime.kube.errors import LeadershipLostError, NotLeadingError
from gpuruntime.kube.lease import Elector, LeaseOptions
from gpuruntime.kube.transport import Transport
from gpuruntime.models.kubernetes.cluster import LEASES
from gpuruntime.models.kubernetes.metadata import Key
from tests.options import configured
from tests.proofs.machinery.lines import Line
from tests.proofs.machinery.worlds import World, now

DEADLINE_SECONDS = 60.0
LEASE_SECONDS = 6.0
RENEW_SECONDS = 4.0
RETRY_SECONDS = 0.5


@pytest.fixture
def key(namespace: str) -> Key:
    return Key(namespace, "leader")


def elector(transport: Transport, key: Key, identity: str) -> Elector:
    """Options with shorter times than the defaults: a hand-over on a real clock takes seconds."""
    options = configured(
        LeaseOptions,
        key=key,
        identity=identity,
        lease_duration_seconds=LEASE_SECONDS,
        renew_deadline_seconds=RENEW_SECONDS,
        retry_period_seconds=RETRY_SECONDS,
    )
    clock = asyncio.get_running_loop().time
    return Elector(transport, options, clock=clock, now=now, rng=Random(1))


@asynccontextmanager
async def running(one: Elector) -> AsyncIterator[asyncio.Task[None]]:
    """End the elector cleanly. Its own error is raised when the task is awaited."""
    task = asyncio.create_task(one.run(), name="elector")
    try:
        yield task
    finally:
        await stop(task)


async def stop(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.wait({task})
    if not task.cancelled():
        task.exception()


async def leads(one: Elector) -> None:
    async with asyncio.timeout(DEADLINE_SECONDS):
        await one.leading.wait()


async def lost(task: asyncio.Task[None]) -> str:
    with pytest.raises(LeadershipLostError) as caught:
        async with asyncio.timeout(DEADLINE_SECONDS):
            await task
    return str(caught.value)


async def test_a_lease_is_created_released_and_taken_over(
    world: World, user: Client, key: Key
) -> None:
    for number, identity in enumerate(("first", "second")):
        one = elector(await world.connect(), key, identity)
        async with running(one):
            await leads(one)
            spec = (await user.get(LEASES, key)).spec
            assert (spec.holderIdentity, spec.leaseTransitions) == (identity, number)
            assert spec.renewTime is not None
        assert (await user.get(LEASES, key)).spec.holderIdentity == ""


async def test_a_standby_takes_over_soon_after_a_clean_end(world: World, key: Key) -> None:
    first = elector(await world.connect(), key, "first")
    second = elector(await world.connect(), key, "second")
    loop = asyncio.get_running_loop()
    async with running(first) as task:
        await leads(first)
        async with running(second):
            await asyncio.sleep(4 * RETRY_SECONDS)
            assert (first.is_leading, second.is_leading) == (True, False)
            begun = loop.time()
            await stop(task)
            await leads(second)
            assert loop.time() - begun < LEASE_SECONDS / 2
            assert not first.is_leading


async def test_a_leader_that_is_cut_off_has_stopped_before_another_leads(
    world: World, line: Line, key: Key
) -> None:
    first = elector(line, key, "first")
    second = elector(await world.connect(), key, "second")
    async with running(first) as task:
        await leads(first)
        async with running(second):
            await asyncio.sleep(RETRY_SECONDS)
            line.cut()
            assert "not renewed in time" in await lost(task)
            assert not second.is_leading
            with pytest.raises(NotLeadingError):
                first.fence()
            await leads(second)
            assert not second.follows_clean_end


async def test_a_leader_survives_a_short_absence_of_the_server(
    line: Line, user: Client, key: Key
) -> None:
    one = elector(line, key, "first")
    async with running(one) as task:
        await leads(one)
        seen = (await user.get(LEASES, key)).spec.renewTime
        line.cut()
        await asyncio.sleep(RENEW_SECONDS / 2)
        line.mend()
        await asyncio.sleep(RENEW_SECONDS)
        assert one.is_leading
        assert not task.done()
        after = (await user.get(LEASES, key)).spec
        assert after.leaseTransitions == 0
        assert seen is not None
        assert after.renewTime is not None
        assert after.renewTime > seen


async def test_a_lease_taken_by_another_ends_the_leadership(
    line: Line, user: Client, key: Key
) -> None:
    one = elector(line, key, "first")
    async with running(one) as task:
        await leads(one)
        await user.patch(LEASES, key, {"spec": {"holderIdentity": "usurper"}})
        assert "held by usurper" in await lost(task)
    assert (await user.get(LEASES, key)).spec.holderIdentity == "usurper"


async def test_a_lease_deleted_under_its_leader_is_created_again(
    line: Line, user: Client, key: Key
) -> None:
    one = elector(line, key, "first")
    async with running(one):
        await leads(one)
        await user.delete(LEASES, key)
        await asyncio.sleep(4 * RETRY_SECONDS)
        assert one.is_leading
        assert (await user.get(LEASES, key)).spec.holderIdentity == "first"


async def test_only_one_of_many_electors_leads(world: World, key: Key) -> None:
    electors = [elector(await world.connect(), key, f"e{number}") for number in range(5)]
    async with AsyncExitStack() as stack:
        for one in electors:
            await stack.enter_async_context(running(one))
        for _ in range(6):
            await asyncio.sleep(RETRY_SECONDS)
            assert sum(one.is_leading for one in electors) == 1
