"""The restore that docs/operate.md describes: objects of one cluster, created in another.

Contents of volumes are not part of it; here a bound claim stands for them.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import aiohttp
import attrs
import pytest

from gpuruntime.embedded.apiserver.server import Server
from gpuruntime.embedded.cluster import EmbeddedCluster
from gpuruntime.kube.client import Client
from gpuruntime.models.kinds import labels
from gpuruntime.models.kinds.pools import STOCK_POOLS
from gpuruntime.models.kinds.storages import GPU_STORAGES
from gpuruntime.models.kinds.units import GPU_UNITS
from gpuruntime.models.kubernetes.resources import Resource
from gpuruntime.models.kubernetes.volumes import JOBS, VOLUME_CLAIMS
from gpuruntime.roles.api import api_role
from gpuruntime.roles.audit import audit
from gpuruntime.roles.dev.installation import install
from gpuruntime.roles.manager import manager_role
from gpuruntime.settings.schema import LeaderElectionSettings, OperationsSettings, Settings
from gpuruntime.settings.values import Address
from tests.eventually import eventually
from tests.rooms.embedded.calls import call

pytestmark = pytest.mark.looptime

Document = dict[str, Any]

STOCK, INSTANCE = "runtime-stock", "runtime-instance"
SETTINGS: Final = Settings(
    listen=Address("127.0.0.1", 0),
    operations=OperationsSettings(listen=Address("127.0.0.1", 0)),
    leaderElection=LeaderElectionSettings(enabled=False),
)
BEGIN: Final = datetime(2026, 3, 1, tzinfo=UTC)
WAIT_SECONDS: Final = 120.0
GRACES_SECONDS: Final = 330.0
# Metadata that the cluster sets when an object is created.
GIVEN: Final = ("uid", "resourceVersion", "creationTimestamp", "generation", "ownerReferences")
ONCE: Final[Document] = {"specName": "once", "cpu": "1", "memory": "2Gi", "gpu": 1}
KEPT: Final[Document] = {"specName": "kept", "cpu": "1", "memory": "1Gi", "gpu": 1}
UNIT: Final[Document] = {
    "operationID": "make-a",
    "name": "a",
    "specName": "once",
    "image": "python:3.12",
    "storageMounts": [{"name": "weights", "mountPath": "/models"}],
}


def now() -> datetime:
    return BEGIN + timedelta(seconds=asyncio.get_running_loop().time())


@attrs.frozen
class InstalledCluster:
    """A cluster with the objects of the manifests; `at_work` runs the roles on it."""

    cluster: EmbeddedCluster
    tasks: asyncio.TaskGroup

    @property
    def server(self) -> Server:
        return self.cluster.server

    def all(self, resource: Resource[Any], namespace: str) -> list[Document]:
        listed = call(self.server, "GET", resource.path(namespace=namespace))
        items: list[Document] = listed["items"]
        return items

    def get(self, resource: Resource[Any], namespace: str, name: str) -> Document:
        return call(self.server, "GET", resource.path(namespace=namespace, name=name))

    def make(self, resource: Resource[Any], held: Document, **marks: str) -> Document:
        metadata = {key: value for key, value in held["metadata"].items() if key not in GIVEN}
        annotations = {**metadata.get("annotations", {}), **marks}
        body = {**held, "metadata": {**metadata, "annotations": annotations}}
        made = call(self.server, "POST", resource.path(namespace=metadata["namespace"]), body)
        assert "uid" in made["metadata"], made
        return made

    def make_with_status(self, resource: Resource[Any], held: Document) -> Document:
        made = self.make(resource, held)
        path = resource.path(
            namespace=made["metadata"]["namespace"],
            name=made["metadata"]["name"],
            subresource="status",
        )
        told = call(self.server, "PATCH", path, {"status": held["status"]})
        assert told["status"] == held["status"]
        return made

    @asynccontextmanager
    async def at_work(self) -> AsyncIterator["Caller"]:
        manager = manager_role(SETTINGS, transport=self.cluster.transport)
        api = api_role(SETTINGS, transport=self.cluster.transport)
        running = [self.tasks.create_task(each.run(), name="role") for each in (manager, api)]
        parts = await api.opened()
        await parts.serving()
        async with aiohttp.ClientSession() as session:
            yield Caller(session, f"{parts.address}/api/v1")
        for role in (api, manager):
            await role.drain()
        for task in running:
            task.cancel()


@attrs.frozen
class Caller:
    session: aiohttp.ClientSession
    root: str

    async def post(self, path: str, body: Document) -> int:
        async with self.session.post(f"{self.root}{path}", json=body) as answer:
            return answer.status

    async def until(self, path: str, **members: object) -> None:
        async def look() -> Document:
            async with self.session.get(f"{self.root}{path}") as answer:
                found: Document = await answer.json()
                return found

        await eventually(
            look,
            lambda found: members.items() <= found.get("data", {}).items(),
            within_seconds=WAIT_SECONDS,
            poll_seconds=0.2,
        )


@asynccontextmanager
async def installed_cluster() -> AsyncIterator[InstalledCluster]:
    cluster = EmbeddedCluster(now=now)
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(cluster.run(), name="cluster")
        await cluster.ready.wait()
        await install(Client(cluster.transport), SETTINGS)
        yield InstalledCluster(cluster, tasks)
        running.cancel()


@attrs.frozen(kw_only=True)
class Backup:
    units: list[Document]
    pools: list[Document]
    storages: list[Document]
    claims: list[Document]


async def back_up() -> Backup:
    """Return the backup of two pools with a unit of each; one unit mounts a filled storage."""
    async with installed_cluster() as here, here.at_work() as caller:
        filling = {"fromImage": "busybox:1.36", "command": ["true"]}
        storage = {"name": "weights", "size": "1Gi", "prepare": filling}
        assert await caller.post("/gpu-storages", storage) == 201
        seed = {"operationID": "seed", **ONCE, "replicas": 3}
        pool = {"operationID": "pool", "name": "kept", **KEPT, "replicas": 1}
        assert await caller.post("/operator/stock-units", seed) == 202
        assert await caller.post("/operator/stockpools", pool) == 202
        await caller.until("/operator/jobs/seed", ready=3)
        await caller.until("/operator/stockpools/kept", available=1)
        other = {"operationID": "make-b", "name": "b", "specName": "kept", "image": "python:3.12"}
        assert await caller.post("/gpu-units", UNIT) == 201
        assert await caller.post("/gpu-units", other) == 201
        for name in ("a", "b"):
            await caller.until(f"/gpu-units/{name}", phase="Ready")
        await caller.until("/operator/jobs/seed", ready=2, consumed=1)
        await caller.until("/operator/stockpools/kept", available=1, consumed=1)
        return Backup(
            units=here.all(GPU_UNITS, INSTANCE),
            pools=here.all(STOCK_POOLS, STOCK),
            storages=here.all(GPU_STORAGES, INSTANCE),
            claims=here.all(VOLUME_CLAIMS, INSTANCE),
        )


def restore(there: InstalledCluster, backup: Backup, *, gives_claims: bool = True) -> None:
    """Create the objects in the page's order, before any manager runs."""
    made = {
        each["metadata"]["name"]: there.make_with_status(GPU_STORAGES, each)
        for each in backup.storages
    }
    for claim in backup.claims:
        uid = made[claim["metadata"]["name"]]["metadata"]["uid"]
        marks = {labels.OWNER_UID: uid} if gives_claims else {}
        there.make(VOLUME_CLAIMS, {**claim, "spec": unbound(claim["spec"])}, **marks)
    for unit in backup.units:
        there.make_with_status(GPU_UNITS, unit)
    for pool in backup.pools:
        there.make(STOCK_POOLS, pool)


def unbound(spec: Document) -> Document:
    return {name: value for name, value in spec.items() if name != "volumeName"}


async def test_restored_objects_are_as_they_were() -> None:
    backup = await back_up()
    async with installed_cluster() as there:
        restore(there, backup)
        async with there.at_work() as caller:
            for name in ("a", "b"):
                await caller.until(f"/gpu-units/{name}", phase="Ready", readyReplicas=1)
            await caller.until("/gpu-storages/weights", phase="Ready", mountedBy=["a"])
            # A pool that seeds once seeds its free units again, but not the consumed ones.
            await caller.until("/operator/jobs/seed", ready=2, consumed=1)
            await caller.until("/operator/stockpools/kept", available=1, consumed=1)
            assert await caller.post("/gpu-units", UNIT) == 200
            report = await audit(
                SETTINGS, watch_seconds=GRACES_SECONDS, transport=there.cluster.transport
            )
            assert report.breaches == ()
        assert there.all(JOBS, INSTANCE) == []


async def test_a_claim_with_the_old_uid_is_left_alone() -> None:
    backup = await back_up()
    async with installed_cluster() as there:
        restore(there, backup, gives_claims=False)
        async with there.at_work() as caller:
            await caller.until("/gpu-storages/weights", phase="Failed", reason="VolumeSyncFailed")
            (claim,) = there.all(VOLUME_CLAIMS, INSTANCE)
            uid = there.get(GPU_STORAGES, INSTANCE, "weights")["metadata"]["uid"]
            assert claim["metadata"]["annotations"][labels.OWNER_UID] != uid
            path = VOLUME_CLAIMS.path(namespace=INSTANCE, name="weights")
            call(
                there.server, "PATCH", path, {"metadata": {"annotations": {labels.OWNER_UID: uid}}}
            )
            await caller.until("/gpu-units/a", phase="Ready", readyReplicas=1)
        assert there.all(JOBS, INSTANCE) == []


async def test_units_without_status_claim_stock_before_they_start() -> None:
    backup = await back_up()
    async with installed_cluster() as there:
        restore(there, attrs.evolve(backup, units=[], storages=[], claims=[]))
        (unit,) = (each for each in backup.units if each["metadata"]["name"] == "b")
        there.make(GPU_UNITS, unit)
        async with there.at_work() as caller:
            await caller.until("/gpu-units/b", phase="Ready")
            restored = there.get(GPU_UNITS, INSTANCE, "b")["metadata"]["annotations"]
            before = unit["metadata"]["annotations"]
            assert restored[labels.SOURCE_STOCK_UID] != before[labels.SOURCE_STOCK_UID]


async def test_a_unit_deleted_by_hand_can_be_created_again_only_without_its_operation() -> None:
    """The unit's operation is finished in the cluster that it was deleted from."""
    async with installed_cluster() as here, here.at_work() as caller:
        pool = {"operationID": "pool", "name": "kept", **KEPT, "replicas": 1}
        assert await caller.post("/operator/stockpools", pool) == 202
        await caller.until("/operator/stockpools/kept", available=1)
        order = {"operationID": "make-b", "name": "b", "specName": "kept", "image": "python:3.12"}
        assert await caller.post("/gpu-units", order) == 201
        await caller.until("/gpu-units/b", phase="Ready")
        unit = here.get(GPU_UNITS, INSTANCE, "b")
        call(here.server, "DELETE", GPU_UNITS.path(namespace=INSTANCE, name="b"))
        await asyncio.sleep(5.0)
        here.make(GPU_UNITS, unit)
        await asyncio.sleep(5.0)
        assert here.all(GPU_UNITS, INSTANCE) == []
        bare = {**unit, "metadata": {**unit["metadata"], "annotations": {}}}
        here.make(GPU_UNITS, bare)
        await caller.until("/gpu-units/b", phase="Ready")
