"""A storage is woken by exactly what its observation reads."""

import json
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, Final

import attrs
import pytest

from gpuruntime.meter import NullMeter
from gpuruntime.models.kinds import labels
from gpuruntime.models.kinds.storages import (
    FINALIZER,
    Accessor,
    GPUStorage,
    GPUStorageSpec,
    GPUStorageStatus,
    Holder,
    Prepare,
    PrepareStatus,
    accessor_name,
    prepare_policy_name,
)
from gpuruntime.models.kinds.units import GPUUnit, GPUUnitSpec, StorageMount
from gpuruntime.models.kubernetes.conditions import Condition
from gpuruntime.models.kubernetes.metadata import Key, ObjectMeta, OwnerReference
from gpuruntime.models.kubernetes.network import NETWORK_POLICIES, SERVICES, NetworkPolicy, Service
from gpuruntime.models.kubernetes.pods import ClaimSource, Pod, PodSpec, PodStatus, PodVolume
from gpuruntime.models.kubernetes.resources import Resource
from gpuruntime.models.kubernetes.volumes import (
    ClaimResources,
    Job,
    JobStatus,
    StorageClass,
    VolumeClaim,
    VolumeClaimSpec,
    VolumeClaimStatus,
)
from gpuruntime.models.kubernetes.workloads import DEPLOYMENTS, Deployment, DeploymentStatus
from gpuruntime.operations.lookup.caches import Cache
from gpuruntime.operations.tombstones import Tombstones
from gpuruntime.reconcilers.children.drift import Child, body_of, patch_towards
from gpuruntime.reconcilers.children.refusals import is_owned_by
from gpuruntime.reconcilers.storage.children import (
    Placing,
    accessor_deployment,
    accessor_policy,
    accessor_service,
)
from gpuruntime.reconcilers.storage.holders import StorageHolders
from gpuruntime.reconcilers.storage.intents import (
    CreateJob,
    Intent,
    ServeFiles,
    StopServing,
    Written,
)
from gpuruntime.reconcilers.storage.observation import StorageObserver
from gpuruntime.reconcilers.storage.observed import Observed
from gpuruntime.reconcilers.storage.plan import decide, findings_after
from gpuruntime.reconcilers.storage.status import accessor_verdict, status_of
from gpuruntime.reconcilers.storage.triggers import READS, StorageTriggers
from gpuruntime.reconcilers.storage.writes import StorageWrites
from gpuruntime.reconcilers.unit.start_locks import StartLocks
from tests.rooms.operations.cluster import INSTANCE, SYSTEM
from tests.rooms.reconcilers.every_member import Change, Effects, asleep, changes_of
from tests.rooms.reconcilers.filled_caches import FilledCaches, by_cache, drained
from tests.rooms.reconcilers.unit.scenes import live
from tests.rooms.reconcilers.world import OPTIONS, SETTLED

pytestmark = pytest.mark.looptime

MOMENT: Final = datetime(2026, 1, 1, tzinfo=UTC)
KEY: Final = Key(INSTANCE, "s")
OWNER: Final = OwnerReference(kind="GPUStorage", name="s", uid="uid-s", controller=True)
UNIT: Final = Holder(name="u", uid="uid-u")
NO_RECORD: Final = PrepareStatus()
RECORD: Final = PrepareStatus(phase="Running", jobName="j", observedDigest="d")
READY: Final = (Condition(type="Ready", status="True", reason="VolumeReady"),)


def meta(name: str, version: int = 1, **more: Any) -> ObjectMeta:
    given = {"namespace": INSTANCE, "uid": f"uid-{name}", **more}
    return ObjectMeta(name=name, resourceVersion=str(version), **given)


def storage(
    name: str = "s",
    *,
    holder: Holder | None = None,
    prepare: Prepare | None = None,
    record: PrepareStatus = NO_RECORD,
    conditions: tuple[Condition, ...] = (),
    **metadata: Any,
) -> GPUStorage:
    return GPUStorage(
        metadata=meta(name, **{"finalizers": (FINALIZER,), **metadata}),
        spec=GPUStorageSpec(size="1Gi", prepare=prepare, accessor=Accessor(enabled=True)),
        status=GPUStorageStatus(holder=holder, prepare=record, conditions=conditions),
    )


def claim(phase: str = "Bound", *, size: str = "1Gi") -> VolumeClaim:
    resources = ClaimResources(requests={"storage": size})
    return VolumeClaim(
        metadata=meta("s", annotations={labels.OWNER_UID: "uid-s"}),
        spec=VolumeClaimSpec(storageClassName="fast", resources=resources),
        status=VolumeClaimStatus(phase=phase),
    )


def unit(*mounts: str, **metadata: Any) -> GPUUnit:
    mounted = tuple(StorageMount(name=name, mountPath=f"/{name}") for name in mounts)
    return GPUUnit(
        metadata=meta("u", **metadata), spec=GPUUnitSpec(specName="g1", storageMounts=mounted)
    )


def pod(name: str, phase: str = "Running", *, node: str = "", **metadata: Any) -> Pod:
    volume = PodVolume(persistentVolumeClaim=ClaimSource(claimName="s"))
    return Pod(
        metadata=meta(name, **metadata),
        spec=PodSpec(nodeName=node, volumes=(volume,)),
        status=PodStatus(phase=phase),
    )


def job(name: str = "j", owner: OwnerReference = OWNER, *conditions: Condition) -> Job:
    marks = {labels.STORAGE: owner.name}
    return Job(
        metadata=meta(name, labels=marks, ownerReferences=(owner,)),
        status=JobStatus(conditions=conditions),
    )


def server(ready: int = 0) -> Deployment:
    marks = {labels.STORAGE: "s"}
    metadata = meta(accessor_name("s"), labels=marks, ownerReferences=(OWNER,))
    return Deployment(metadata=metadata, status=DeploymentStatus(readyReplicas=ready))


def fast(**members: Any) -> StorageClass:
    return StorageClass(metadata=meta("fast", namespace=""), **members)


FILLED: Final = storage(prepare=Prepare(fromImage="i", args=("a",)), record=RECORD)
COPIED: Final = storage(prepare=Prepare(fromStorageName="t"))
ENDING: Final = storage(deletionTimestamp=MOMENT)
COPY_OWNER: Final = OwnerReference(kind="GPUStorage", name="c", uid="uid-c", controller=True)
COPYING: Final = storage("c", prepare=Prepare(fromStorageName="s"), record=RECORD)
COMPLETE: Final = Condition(type="Complete", status="True")
HELPER: Final = {labels.STORAGE: "s"}
UNITS: Final = {labels.UNIT: "u"}
JOB_OWNER: Final = OwnerReference(kind="Job", name="j", uid="uid-j", controller=True)


class Scene:
    """A storage with the objects around it in the caches of a leader."""

    def __init__(self, *objects: Any) -> None:
        filled = FilledCaches(options=OPTIONS, now=MOMENT)
        self._triggers = StorageTriggers(
            filled.informers, filled.leadership, namespace=INSTANCE, meter=NullMeter()
        )
        filled.lead(objects)
        self.put, self.remove, self.reads = filled.put, filled.remove, filled.reads
        self._caches = caches = filled.noted
        client, now = filled.client, lambda: MOMENT
        self._holders = StorageHolders(
            client,
            caches,
            writes=StorageWrites(client=client, storages=caches.storages),
            starts=StartLocks(),
            term=lambda: SETTLED,
        )
        self._observer = StorageObserver(
            client=client,
            caches=caches,
            tombstones=Tombstones(client, namespace=SYSTEM, retention_seconds=60.0, now=now),
            now=now,
        )

    async def observe(self) -> Observed | None:
        storage = self._observer.cached(KEY)
        if storage is None:
            return None
        async with self._holders.settled(storage) as holding:
            return await self._observer.observe(storage, holding)

    async def woken(self) -> set[Key]:
        return await drained(self._triggers.storages)

    async def effects(self) -> Effects | None:
        seen = await self.observe()
        if seen is None:
            return None
        plan = decide(seen, OPTIONS)
        writes = tuple(self._written(each, seen) for each in plan.intents)
        return Effects((writes, self._status(seen)), plan.again_seconds)

    async def rest(self, value: GPUStorage) -> GPUStorage:
        """Give the storage the status that follows from the scene, and return it."""
        seen = await self.observe()
        assert seen is not None
        rested = attrs.evolve(value, status=self._status(seen))
        self.put(rested)
        await self.woken()
        return rested

    def _status(self, seen: Observed) -> GPUStorageStatus:
        plan, accessor = decide(seen, OPTIONS), None
        for intent in plan.intents:
            if isinstance(intent, ServeFiles) and seen.server is not None:
                accessor = accessor_verdict(
                    seen.storage, seen.server, seen.server_pods, intent.placing
                )
        found = findings_after(plan, Written(accessor=accessor))
        return status_of(seen.storage, found, OPTIONS, now=MOMENT)

    def _written(self, intent: Intent, seen: Observed) -> object:
        caches, name = self._caches, accessor_name(KEY.name)
        deployments = caches.deployments[INSTANCE]
        match intent:
            case ServeFiles(policy=policy, service=service, deployment=deployment):
                return (
                    patch(policy, NETWORK_POLICIES, caches.policies, name),
                    patch(service, SERVICES, caches.services, name),
                    patch(deployment, DEPLOYMENTS, deployments, name),
                )
            case CreateJob(policy=policy):
                written = patch(
                    policy, NETWORK_POLICIES, caches.policies, prepare_policy_name("s")
                )
                return (CreateJob, written)
            case StopServing():
                kept = (deployments, caches.services, caches.policies)
                found = (each.store.get(Key(INSTANCE, name)) for each in kept)
                return [each is not None and is_owned_by(each, seen.storage) for each in found]
            case _:
                return type(intent)


def patch(child: Child, resource: Resource[Any], cache: Cache[Any], name: str) -> object:
    present = cache.store.get(Key(INSTANCE, name))
    if present is None:
        return "create"
    is_own = is_owned_by(present, storage())
    return json.dumps(patch_towards(child, body_of(resource, present))) if is_own else "refused"


# The objects before, then the one that changes.
CHANGES: Final = {
    "its own spec": ((storage(),), storage(generation=2)),
    "its holder": ((storage(),), storage(holder=UNIT)),
    "the storage that it copies": (
        (COPIED, claim(), storage("t")),
        storage("t", conditions=READY),
    ),
    "a cycle of copies": (
        (COPIED, storage("t")),
        storage("t", prepare=Prepare(fromStorageName="s"), generation=2, conditions=READY),
    ),
    "the end of a copy of it": (
        (ENDING, COPYING, job(owner=COPY_OWNER)),
        attrs.evolve(
            COPYING,
            metadata=meta("c", 2, finalizers=(FINALIZER,)),
            status=GPUStorageStatus(prepare=attrs.evolve(RECORD, phase="Succeeded")),
        ),
    ),
    "the mounts of its holder": ((storage(holder=UNIT), unit("s")), unit()),
    "the deletion of its holder": (
        (storage(holder=UNIT), unit("s")),
        unit("s", deletionTimestamp=MOMENT),
    ),
    "the node of its holder's Pod": (
        (storage(holder=UNIT), unit("s"), pod("p", labels=UNITS)),
        pod("p", node="node-1", labels=UNITS),
    ),
    "the end of its holder's Pod": (
        (storage(holder=UNIT), unit("s"), pod("p", labels=UNITS)),
        pod("p", "Succeeded", labels=UNITS),
    ),
    # A Pod without a node or a failure shows nothing yet, and wakes no storage.
    "a Pod of its prepare": (
        (FILLED, claim(), job()),
        pod("p", node="node-1", labels=HELPER, ownerReferences=(JOB_OWNER,)),
    ),
    "a Pod of its file server": (
        (storage(), claim()),
        pod(f"{accessor_name('s')}-x", node="node-1", labels=HELPER),
    ),
    "its claim": ((storage(), claim("Pending")), claim()),
    "the class of its claim": (
        (storage(), claim(), fast()),
        fast(allowVolumeExpansion=True),
    ),
    "the Job of its prepare": ((FILLED, claim(), job()), job("j", OWNER, COMPLETE)),
    "its file server": ((storage(), claim(), server()), server(1)),
}


@pytest.mark.parametrize(
    ("before", "change"), CHANGES.values(), ids=[f"{each} wakes it" for each in CHANGES]
)
async def test_a_storage_is_woken_by_what_it_observes(
    before: tuple[Any, ...], change: Any
) -> None:
    scene = Scene(*before)
    await scene.woken()
    seen = await scene.observe()
    scene.put(change)
    woken = await scene.woken()
    assert await scene.observe() != seen
    assert KEY in woken


SERVED: Final = storage()
HELD: Final = storage(holder=UNIT)
STATUS: Final = DeploymentStatus(observedGeneration=1, readyReplicas=1, replicas=1)


def served(of: GPUStorage, placing: Placing) -> tuple[Any, ...]:
    """Return the children of a storage whose file server runs as it should."""
    deployed = live(accessor_deployment(of, OPTIONS, placing), Deployment)
    return (
        attrs.evolve(deployed, status=STATUS),
        live(accessor_service(of, OPTIONS), Service),
        live(accessor_policy(of, OPTIONS), NetworkPolicy),
        pod(f"{accessor_name('s')}-x", node="node-1", labels=HELPER),
    )


SCENES: Final[dict[str, tuple[Any, ...]]] = {
    "a storage that serves its files": (SERVED, claim(), fast(), *served(SERVED, Placing())),
    "a storage that a unit holds": (
        HELD,
        claim(),
        fast(),
        unit("s"),
        pod("p", node="node-1", labels=UNITS),
        *served(HELD, Placing(node="node-1")),
    ),
    "a storage that its class does not let grow": (SERVED, claim(size="1Mi"), fast()),
    "a storage whose prepare runs": (
        FILLED,
        claim(),
        job(),
        pod("p", node="node-1", labels=HELPER, ownerReferences=(JOB_OWNER,)),
    ),
    "a storage that waits for the one that it copies": (COPIED, claim(), storage("t")),
    "a storage that copies itself over another": (
        COPIED,
        claim(),
        storage("t", prepare=Prepare(fromStorageName="s")),
    ),
    "a storage that ends while a copy of it runs": (ENDING, COPYING, job(owner=COPY_OWNER)),
}


def changes(of: Any) -> Iterator[Change]:
    """Yield what may happen to an object of a scene."""
    is_own = isinstance(of, GPUStorage) and of.metadata.key == KEY
    return changes_of(of, is_deletable=not is_own, kept=(".status",) if is_own else ())


async def asleep_in(objects: tuple[Any, ...]) -> tuple[list[str], Counter[str]]:
    """Change all objects of a scene that has come to rest."""
    scene = Scene(*objects)
    await scene.woken()
    rested = await scene.rest(objects[0])
    return await asleep(scene, KEY, by_cache(rested, *objects[1:]), changes)


@pytest.mark.parametrize("objects", SCENES.values(), ids=SCENES)
async def test_no_change_that_matters_to_a_storage_leaves_it_asleep(
    objects: tuple[Any, ...],
) -> None:
    missed, mattered = await asleep_in(objects)
    assert missed == []
    assert mattered.total() > 3


async def test_a_change_in_each_cache_that_is_read_matters() -> None:
    mattered = Counter[str]()
    for objects in SCENES.values():
        mattered += (await asleep_in(objects))[1]
    assert set(mattered) == set(READS)


async def test_every_cache_that_is_read_is_declared_and_every_declared_one_is_read() -> None:
    reads = set[str]()
    for objects in SCENES.values():
        scene = Scene(*objects)
        await scene.effects()
        reads |= scene.reads
    assert reads == set(READS)
