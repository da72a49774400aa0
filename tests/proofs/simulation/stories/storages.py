"""The story of a storage: filled, mounted by one unit after the other, kept or deleted."""

import asyncio
from typing import Any, Final, Protocol

from gpuruntime.embedded.nodes.failures import FAIL
from gpuruntime.kube.client import Client
from gpuruntime.models.encoding.json import JsonObject
from gpuruntime.models.kinds import labels
from gpuruntime.models.kinds.phases import StepPhase, StoragePhase
from gpuruntime.models.kinds.storages import GPU_STORAGES, GPUStorage
from gpuruntime.models.kinds.units import GPUUnit
from gpuruntime.models.kubernetes.conditions import condition_of
from gpuruntime.models.kubernetes.metadata import Key
from gpuruntime.models.kubernetes.pods import PODS
from gpuruntime.models.kubernetes.volumes import VOLUME_CLAIMS
from gpuruntime.models.kubernetes.workloads import DEPLOYMENTS
from tests.proofs.simulation.callers import Caller
from tests.proofs.simulation.checks.cluster_observer import INSTANCE, ClusterObserver
from tests.proofs.simulation.checks.unit_status import is_current, is_ready
from tests.proofs.simulation.stories.script import Release, StorageStory

STORAGES: Final = "/gpu-storages"
UNITS: Final = "/gpu-units"
LOOK_SECONDS: Final = 1.0
# Much shorter than the start of a Pod.
GLANCE_SECONDS: Final = 0.05
FILL: Final = {"fromImage": "busybox:1.36", "command": ["fill"]}
FAILURE: Final = "crash=3: disk is full"


class StoryContext(Protocol):
    """The part of a StoryRunner that this story needs."""

    @property
    def kubectl(self) -> Client: ...

    @property
    def observer(self) -> ClusterObserver: ...

    def caller(self, name: str) -> Caller: ...

    def require(self, holds: object, what: str) -> None: ...

    def note(self, story: str, text: str) -> None: ...


class StorageStoryRun:
    def __init__(self, context: StoryContext, story: StorageStory) -> None:
        self._context = context
        self._story = story
        self._caller = context.caller(story.operation)
        self._path = f"{STORAGES}/{story.name}"

    async def run(self) -> None:
        story = self._story
        await asyncio.sleep(story.begins_at)
        first, second = story.users
        async with asyncio.TaskGroup() as tasks:
            if story.fails:
                tasks.create_task(self._fail_first_prepare(), name=f"spoil {story.name}")
            await self._create()
            await self._make_unit(first, mounts=True)
        if story.fails:
            await self._recover()
        await self._until_mounted_by(first)
        await self._require_in_use()
        if story.is_replaced:
            await self._replace(first)
        if story.is_suspended:
            await self._sleep(first)
        await self._make_unit(second, mounts=not story.mounts_later)
        if story.mounts_later:
            await self._until_ready(second)
            await self._change(second, storageMounts=[self._mount])
        await self._release(first)
        await self._until_mounted_by(second)
        if story.is_deleted:
            await self._delete(second)
        if story.loses_claim:
            await self._delete_claim(second)
        self._context.note(story.operation, "told")

    @property
    def _mount(self) -> dict[str, Any]:
        return {"name": self._story.name, "mountPath": "/data"}

    @property
    def _body(self) -> dict[str, Any]:
        story = self._story
        return {
            "operationID": story.operation,
            "name": story.name,
            "size": "1Gi",
            "accessor": {"enabled": story.has_accessor},
            **({"prepare": FILL} if story.is_prepared else {}),
        }

    def _storage(self) -> GPUStorage | None:
        return self._context.observer.storages.get(Key(INSTANCE, self._story.name))

    def _unit(self, name: str) -> GPUUnit | None:
        return self._context.observer.units.get(Key(INSTANCE, name))

    async def _create(self) -> None:
        for _ in range(2):
            answer = (await self._caller.call("POST", STORAGES, self._body)).answer
            # If the answer to the first request was lost, the repeated one is answered 200.
            self._require(answer.status in (200, 201), f"created: {answer}")
        made = self._context.observer.object_counts[
            GPU_STORAGES.kind, f"{INSTANCE}/{self._story.name}"
        ]
        self._require(made.created == 1, "created more than once")

    async def _make_unit(self, name: str, *, mounts: bool, operation: str = "") -> None:
        body = {
            "operationID": operation or f"unit-{name}",
            "name": name,
            "specName": "ample",
            "image": "trainer:1",
            **({"storageMounts": [self._mount]} if mounts else {}),
        }
        while True:
            answer = (await self._caller.call("POST", UNITS, body)).answer
            if answer.code != "insufficient_capacity":
                break
            await asyncio.sleep(5.0)
        self._require(answer.status in (200, 201), f"unit {name}: {answer}")

    async def _fail_first_prepare(self) -> None:
        while not self._has_failed():
            for pod in self._pods_that_fill():
                marks: JsonObject = {"metadata": {"annotations": {FAIL: FAILURE}}}
                await self._context.kubectl.patch(PODS, pod, marks)
            await asyncio.sleep(GLANCE_SECONDS)

    async def _recover(self) -> None:
        answer = (await self._caller.call("POST", f"{self._path}/recover")).answer
        # If the answer to the first request was lost, the repeated one has nothing to recover.
        is_asked = answer.status == 200 or answer.code == "nothing_to_recover"
        self._require(is_asked, f"recovered: {answer}")

    def _has_failed(self) -> bool:
        storage = self._storage()
        return storage is not None and storage.status.prepare.phase == StepPhase.FAILED

    def _pods_that_fill(self) -> list[Key]:
        return [
            each.metadata.key
            for each in self._context.observer.continuous_audit.held(PODS.kind)
            if each.metadata.labels.get(labels.STORAGE) == self._story.name
            and any(owner.kind == "Job" for owner in each.metadata.ownerReferences)
            and FAIL not in each.metadata.annotations
        ]

    async def _until_mounted_by(self, name: str) -> None:
        """Wait until the unit mounts the storage.

        A running unit stays Ready while it waits for another storage, so that Ready alone is not
        enough.
        """
        await self._until(lambda: self._is_ready(name) and self._has_mounts(name))
        storage = self._storage()
        self._require(
            storage and storage.status.phase == StoragePhase.READY, "mounted before it is ready"
        )
        self._require_holder(name)

    async def _require_in_use(self) -> None:
        answer = (await self._caller.call("DELETE", self._path)).answer
        self._require(answer.code == "storage_in_use", f"deleted while mounted: {answer}")
        self._require(self._storage(), "deleted while mounted")

    async def _sleep(self, name: str) -> None:
        """Suspend the unit: it keeps its storage, even if its Deployment is deleted."""
        await self._suspend(name)
        self._require_holder(name)
        await self._drop_deployment(name)
        self._require_holder(name)
        await self._change(name, suspended=False)
        await self._until_ready(name)
        self._require_holder(name)

    async def _suspend(self, name: str) -> None:
        await self._change(name, suspended=True)
        await self._until(lambda: self._is_suspended(name))

    async def _drop_deployment(self, unit: str) -> None:
        """Delete the unit's Deployment, and wait for another one."""
        key, dropped = Key(INSTANCE, f"unit-{unit}"), self._deployment_uid(unit)
        await self._context.kubectl.delete(DEPLOYMENTS, key)
        await self._until(lambda: self._deployment_uid(unit) not in ("", dropped))

    def _deployment_uid(self, unit: str) -> str:
        deployments = self._context.observer.continuous_audit.held(DEPLOYMENTS.kind)
        uids = (each.metadata.uid for each in deployments if each.metadata.name == f"unit-{unit}")
        return next(uids, "")

    async def _replace(self, name: str) -> None:
        """Replace the unit by another one of the same name, which mounts the released storage."""
        unit = self._unit(name)
        uid = unit.metadata.uid if unit else ""
        await self._delete_unit(name)
        await self._make_unit(name, mounts=True, operation=f"unit-{name}-again")
        await self._until_mounted_by(name)
        storage = self._storage()
        holder = storage.status.holder if storage else None
        self._require(holder and holder.uid != uid, "held by a deleted unit")

    async def _release(self, name: str) -> None:
        match self._story.release:
            case Release.UNMOUNTED:
                await self._change(name, storageMounts=None)
            case Release.UNMOUNTED_WHILE_SUSPENDED:
                await self._suspend(name)
                await self._change(name, storageMounts=None)
            case Release.DELETED:
                await self._delete_unit(name)

    async def _delete_unit(self, name: str) -> None:
        answer = (await self._caller.call("DELETE", f"{UNITS}/{name}")).answer
        self._require(answer.status in (204, 404), f"unit {name} deleted: {answer}")

    async def _delete_claim(self, user: str) -> None:
        """Delete the volume claim: the data is lost, and no empty volume replaces it."""
        await self._delete_unit(user)
        await self._until(self._has_no_holder)
        await self._context.kubectl.delete(VOLUME_CLAIMS, Key(INSTANCE, self._story.name))
        await self._until(self._has_lost_its_volume)

    def _has_no_holder(self) -> bool:
        storage = self._storage()
        return storage is not None and storage.status.holder is None

    def _has_lost_its_volume(self) -> bool:
        storage = self._storage()
        return storage is not None and storage.status.phase == StoragePhase.FAILED

    async def _delete(self, user: str) -> None:
        """Delete the storage as soon as no unit mounts it."""
        await self._delete_unit(user)
        while True:
            answer = (await self._caller.call("DELETE", self._path)).answer
            if answer.code != "storage_in_use":
                break
            await asyncio.sleep(LOOK_SECONDS)
        self._require(answer.status in (204, 404), f"deleted: {answer}")
        await self._until(lambda: self._storage() is None)
        late = (await self._caller.call("POST", STORAGES, self._body)).answer
        self._require(late.code == "operation_finished", f"late replay: {late}")

    async def _change(self, name: str, **members: Any) -> None:
        answer = (await self._caller.call("PUT", f"{UNITS}/{name}", members)).answer
        self._require(answer.status == 200, f"unit {name}, {sorted(members)}: {answer}")

    async def _until_ready(self, name: str) -> None:
        await self._until(lambda: self._is_ready(name))

    def _is_ready(self, name: str) -> bool:
        return is_ready(self._unit(name))

    def _has_mounts(self, name: str) -> bool:
        unit = self._unit(name)
        mounts = condition_of(unit.status.conditions, "StorageReady") if unit else None
        return mounts is not None and mounts.status == "True"

    def _is_suspended(self, name: str) -> bool:
        unit = self._unit(name)
        return unit is not None and is_current(unit) and unit.status.phase == "Suspended"

    def _require_holder(self, name: str) -> None:
        storage = self._storage()
        holder = storage.status.holder if storage else None
        self._require(holder and holder.name == name, f"held by {holder}, not by {name}")

    async def _until(self, holds: Any) -> None:
        while not holds():  # noqa: ASYNC110  # virtual time costs nothing
            await asyncio.sleep(LOOK_SECONDS)

    def _require(self, holds: object, what: str) -> None:
        self._context.require(holds, f"{self._story.operation}: {what}")
