"""The story of a storage that is changed with kubectl, and of units that wait for it."""

import asyncio
from collections.abc import Callable
from typing import Any, Final

from gpuruntime.models.encoding.json import JsonObject
from gpuruntime.models.kinds.phases import StepPhase, StoragePhase
from gpuruntime.models.kinds.reasons import StorageReason
from gpuruntime.models.kinds.storages import GPU_STORAGES, GPUStorage
from gpuruntime.models.kinds.units import GPU_UNITS
from gpuruntime.models.kubernetes.conditions import condition_of
from gpuruntime.models.kubernetes.metadata import Key
from gpuruntime.models.kubernetes.volumes import JOBS, VOLUME_CLAIMS
from tests.proofs.simulation.checks.cluster_observer import INSTANCE
from tests.proofs.simulation.stories.script import StorageChange, StorageChangeStory
from tests.proofs.simulation.stories.storages import FILL, STORAGES, StoryContext

LOOK_SECONDS: Final = 1.0
# Creation timestamps have whole seconds.
YOUNGER_SECONDS: Final = 2.0
# Long enough for a manager to make a wrong change.
PATIENCE_SECONDS: Final = 30.0


class StorageChangeStoryRun:
    def __init__(self, context: StoryContext, story: StorageChangeStory) -> None:
        self._context = context
        self._story = story
        self._caller = context.caller(story.operation)
        self._key = Key(INSTANCE, story.name)

    async def run(self) -> None:
        await asyncio.sleep(self._story.begins_at)
        await self._make(self._story.operation)
        if self._story.change is StorageChange.JOB_REMOVED:
            await self._remove_job()
        last = await self._let_units_wait()
        match self._story.change:
            case StorageChange.DELETED_WHILE_MOUNTED:
                await self._delete_while_mounted(last)
            case StorageChange.CLAIM_REMOVED:
                await self._remove_claim(last)
            case StorageChange.JOB_REMOVED:
                await self._delete_unit(last)
                await self._delete()
        if self._story.is_recreated:
            await self._make(f"{self._story.operation}-again")
            await self._mount("again")
            await self._until(lambda: self._holder() == self._name("again"))
        self._context.note(self._story.operation, "told")

    async def _make(self, operation: str) -> None:
        """Create a storage of this name, and wait until it is ready."""
        body = {
            "operationID": operation,
            "name": self._story.name,
            "size": "1Gi",
            "prepare": FILL,
        }
        answer = (await self._caller.call("POST", STORAGES, body)).answer
        self._require(answer.status in (200, 201), f"{operation}: {answer}")
        await self._until(lambda: self._phase() == StoragePhase.READY)

    async def _remove_job(self) -> None:
        """Delete the Job, and check that the filled storage is not filled again."""
        storage = self._storage()
        assert storage is not None
        job = Key(INSTANCE, storage.status.prepare.jobName)
        before = self._context.observer.object_counts[JOBS.kind, str(job)].created
        await self._context.kubectl.delete(JOBS, job)
        await asyncio.sleep(PATIENCE_SECONDS)
        after = self._storage()
        is_filled = after is not None and after.status.prepare.phase == StepPhase.SUCCEEDED
        self._require(is_filled, "no longer filled after its Job was deleted")
        made = self._context.observer.object_counts[JOBS.kind, str(job)].created
        self._require(made == before, "filled again after its Job was deleted")

    async def _let_units_wait(self) -> str:
        """Let two units wait for the storage; the older one is next. Return the last holder."""
        await self._mount("first")
        await self._until(lambda: self._holder() == self._name("first"))
        for short in ("older", "younger"):
            await self._mount(short)
            await asyncio.sleep(YOUNGER_SECONDS)
        self._require(self._holder() == self._name("first"), "taken from its holder")
        for before, after in (("first", "older"), ("older", "younger")):
            await self._delete_unit(self._name(before))
            await self._until_next_holder(self._name(before))
            self._require(self._holder() == self._name(after), f"held by {self._holder()}")
        return self._name("younger")

    async def _until_next_holder(self, before: str) -> None:
        await self._until(lambda: self._holder() not in ("", before))

    async def _delete_while_mounted(self, unit: str) -> None:
        await self._context.kubectl.delete(GPU_STORAGES, self._key)
        await asyncio.sleep(PATIENCE_SECONDS)
        self._require(self._holder() == unit, "deleted while mounted")
        await self._delete_unit(unit)
        await self._until(lambda: self._storage() is None)

    async def _remove_claim(self, unit: str) -> None:
        """Delete the volume claim, and check that no empty volume replaces the lost one."""
        await self._delete_unit(unit)
        await self._until(lambda: not self._holder())
        await self._context.kubectl.delete(VOLUME_CLAIMS, self._key)
        await self._until(lambda: self._reason() == StorageReason.VOLUME_LOST)
        await asyncio.sleep(PATIENCE_SECONDS)
        made = self._context.observer.object_counts[VOLUME_CLAIMS.kind, str(self._key)]
        self._require(made.created == 1, f"{made.created} volume claims were created")
        await self._delete()

    async def _delete(self) -> None:
        while True:
            path = f"{STORAGES}/{self._story.name}"
            answer = (await self._caller.call("DELETE", path)).answer
            if answer.code != "storage_in_use":
                break
            await asyncio.sleep(LOOK_SECONDS)
        self._require(answer.status in (204, 404), f"deleted: {answer}")
        await self._until(lambda: self._storage() is None)

    async def _mount(self, short: str) -> None:
        mounts: list[Any] = [{"name": self._story.name, "mountPath": "/data"}]
        body: JsonObject = {
            "apiVersion": GPU_UNITS.api_version,
            "kind": GPU_UNITS.kind,
            "metadata": {"name": self._name(short)},
            "spec": {"specName": "direct", "image": "trainer:1", "storageMounts": mounts},
        }
        await self._context.kubectl.create(GPU_UNITS, body, namespace=INSTANCE)

    async def _delete_unit(self, name: str) -> None:
        await self._context.kubectl.delete(GPU_UNITS, Key(INSTANCE, name))

    def _name(self, short: str) -> str:
        return f"{self._story.name}-{short}"

    def _storage(self) -> GPUStorage | None:
        return self._context.observer.storages.get(self._key)

    def _phase(self) -> str:
        storage = self._storage()
        return storage.status.phase if storage else ""

    def _reason(self) -> str:
        storage = self._storage()
        ready = condition_of(storage.status.conditions, "Ready") if storage else None
        return ready.reason if ready else ""

    def _holder(self) -> str:
        storage = self._storage()
        holder = storage.status.holder if storage else None
        return holder.name if holder else ""

    async def _until(self, holds: Callable[[], bool]) -> None:
        while not holds():  # noqa: ASYNC110  # virtual time costs nothing
            await asyncio.sleep(LOOK_SECONDS)

    def _require(self, holds: object, what: str) -> None:
        self._context.require(holds, f"{self._story.operation}: {what}")
