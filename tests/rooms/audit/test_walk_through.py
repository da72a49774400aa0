"""The product runs on the embedded cluster, and every single change is audited at once."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import aiohttp
import attrs
import pytest

from gpuruntime.embedded.cluster import EmbeddedCluster
from gpuruntime.kube.client import Client
from gpuruntime.models.encoding.json import JsonObject
from gpuruntime.models.kinds.pools import STOCK_POOLS
from gpuruntime.models.kinds.units import GPU_UNITS
from gpuruntime.models.kubernetes.metadata import Key
from gpuruntime.roles.api import api_role
from gpuruntime.roles.dev.installation import install
from gpuruntime.roles.manager import manager_role
from gpuruntime.roles.process import Process
from gpuruntime.settings.schema import LeaderElectionSettings
from tests.rooms.audit.continuous_audit import ContinuousAudit
from tests.rooms.operations.cluster import INSTANCE, STOCK
from tests.rooms.roles.dev.test_dev import Caller, local_settings
from tests.walkthrough import STOCK as SEED
from tests.walkthrough import UNIT

pytestmark = pytest.mark.looptime

POOL = {**SEED, "operationID": "pool-1", "name": "warm", "replicas": 3}


@attrs.frozen(kw_only=True)
class Site:
    caller: Caller
    client: Client
    onlooker: ContinuousAudit


def clock_of(loop: asyncio.AbstractEventLoop) -> Callable[[], datetime]:
    """Return a wall clock that follows the loop's time."""
    return lambda: datetime(2026, 3, 1, tzinfo=UTC) + timedelta(seconds=loop.time())


@asynccontextmanager
async def working() -> AsyncIterator[Site]:
    settings = attrs.evolve(local_settings(), leaderElection=LeaderElectionSettings(enabled=False))
    now = clock_of(asyncio.get_running_loop())
    cluster = EmbeddedCluster(now=now)
    async with asyncio.TaskGroup() as tasks:
        running = [tasks.create_task(cluster.run())]
        await cluster.ready.wait()
        client = Client(cluster.transport)
        await install(client, settings)
        onlooker = ContinuousAudit(cluster.server)
        manager = manager_role(settings, transport=cluster.transport, process=Process(now=now))
        api = api_role(settings, transport=cluster.transport, process=Process(now=now))
        running += [tasks.create_task(manager.run()), tasks.create_task(api.run())]
        parts = await api.opened()
        await parts.listening.wait()
        async with aiohttp.ClientSession() as session:
            yield Site(caller=Caller(session, parts.address), client=client, onlooker=onlooker)
        for role in (api, manager):
            await role.drain()
        for task in running:
            task.cancel()


def unit(operation: str, **members: object) -> dict[str, object]:
    return {**UNIT, "operationID": operation, "name": operation, **members}


async def test_seeding_claiming_updating_suspending_and_deleting_breaks_no_rule() -> None:
    async with working() as site:
        caller = site.caller
        await caller.post("/operator/stock-units", SEED)
        await caller.post("/operator/stockpools", POOL)
        await caller.until("/operator/jobs/pool-1", lambda job: job["ready"] == 3)
        for operation in ("one", "two", "three"):
            assert (await caller.post("/gpu-units", unit(operation)))[0] == 201
            assert (await caller.post("/gpu-units", unit(operation)))[0] == 200
            await caller.until(f"/gpu-units/{operation}", lambda held: held["phase"] == "Ready")
        await caller.put("/gpu-units/one", {"image": "python:3.13"})
        await caller.put("/gpu-units/two", {"suspended": True})
        await caller.until("/gpu-units/two", lambda held: held["phase"] == "Suspended")
        await caller.put("/gpu-units/two", {"suspended": False})
        await caller.put("/operator/stockpools/warm", {"replicas": 1})
        assert await caller.delete("/gpu-units/one") == 204
        await caller.until("/gpu-units/two", lambda held: held["phase"] == "Ready")
        await site.client.delete(GPU_UNITS, Key(INSTANCE, "three"))
        assert await caller.delete("/operator/stockpools/warm") == 204
        await asyncio.sleep(310)
        assert site.onlooker.looks > 100
        site.onlooker.assert_clean()


async def test_failed_and_waiting_units_and_contradicting_pools_break_no_rule() -> None:
    failing = {"command": ["run"], "envs": [{"name": "SIMULATE_FAIL", "value": "crash=3: no"}]}
    async with working() as site:
        caller = site.caller
        await caller.post("/operator/stockpools", POOL)
        await caller.until("/operator/jobs/pool-1", lambda job: job["ready"] == 3)
        await caller.post("/gpu-units", unit("bad", template=failing, access={}))
        await caller.until("/gpu-units/bad", lambda held: held["phase"] == "Failed")
        other: JsonObject = {"specName": "g1.1", "gpu": 2, "replicas": 1}
        await site.client.create(
            STOCK_POOLS,
            {
                "apiVersion": STOCK_POOLS.api_version,
                "kind": "StockPool",
                "metadata": {"name": "other"},
                "spec": other,
            },
            namespace=STOCK,
        )
        by_hand: JsonObject = {"specName": "big", "memory": "9000Gi", "image": "python:3.12"}
        for name, memory in (("big", "9000Gi"), ("odd", "much")):
            await site.client.create(
                GPU_UNITS,
                {
                    "apiVersion": GPU_UNITS.api_version,
                    "kind": "GPUUnit",
                    "metadata": {"name": name},
                    "spec": {**by_hand, "memory": memory},
                },
                namespace=INSTANCE,
            )
        await caller.until("/gpu-units/odd", lambda held: held["reason"] == "InvalidSpec")
        await caller.until("/gpu-units/big", lambda held: held["reason"] == "PodUnschedulable")
        await asyncio.sleep(310)
        site.onlooker.assert_clean()


async def test_filling_mounting_passing_on_and_deleting_storages_breaks_no_rule() -> None:
    filled = {"fromImage": "filler:1", "command": ["fill"]}
    mounts = {"storageMounts": [{"name": "data", "mountPath": "/data"}]}
    async with working() as site:
        caller = site.caller
        await caller.post("/operator/stockpools", POOL)
        await caller.until("/operator/jobs/pool-1", lambda job: job["ready"] == 3)
        await caller.post("/gpu-storages", {"name": "data", "size": "1Gi", "prepare": filled})
        await caller.post("/gpu-units", unit("one", **mounts))
        await caller.until("/gpu-units/one", lambda held: held["phase"] == "Ready")
        copied = {"name": "copy", "size": "1Gi", "prepare": {"fromStorageName": "data"}}
        await caller.post("/gpu-storages", copied)
        await caller.until("/gpu-storages/copy", lambda held: held["phase"] == "Ready")
        await caller.post("/gpu-units", unit("two", **mounts))
        await caller.until("/gpu-units/two", lambda held: held["reason"] == "StorageNotReady")
        await caller.put("/gpu-storages/data", {"accessor": {"enabled": True}})
        await caller.put("/gpu-units/one", {"suspended": True})
        await caller.until("/gpu-units/one", lambda held: held["phase"] == "Suspended")
        await caller.put("/gpu-units/one", {"suspended": False})
        await caller.until("/gpu-units/one", lambda held: held["phase"] == "Ready")
        assert await caller.delete("/gpu-units/one") == 204
        await caller.until("/gpu-units/two", lambda held: held["phase"] == "Ready")
        await caller.put("/gpu-units/two", {"storageMounts": None})
        await caller.until("/gpu-storages/data", lambda held: held["mountedBy"] == [])
        assert await caller.delete("/gpu-storages/data") == 204
        await asyncio.sleep(310)
        assert site.onlooker.looks > 100
        site.onlooker.assert_clean()
