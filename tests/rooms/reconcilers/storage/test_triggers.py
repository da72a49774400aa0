"""A storage is woken by exactly what its observation reads."""

from datetime import UTC, datetime
from random import Random
from typing import Any, Final

import attrs
import pytest

from gpuruntime.concurrency.leadership import Leadership
from gpuruntime.embedded.apiserver.in_process_transport import InProcessTransport
from gpuruntime.informer.informer import Informer
from gpuruntime.kube.client import Client
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
)
from gpuruntime.models.kinds.units import GPUUnit, GPUUnitSpec, StorageMount
from gpuruntime.models.kubernetes.conditions import Condition
from gpuruntime.models.kubernetes.metadata import Key, ObjectMeta, OwnerReference
from gpuruntime.models.kubernetes.pods import ClaimSource, Pod, PodSpec, PodStatus, PodVolume
from gpuruntime.models.kubernetes.volumes import (
    Job,
    JobStatus,
    StorageClass,
    VolumeClaim,
    VolumeClaimSpec,
    VolumeClaimStatus,
)
from gpuruntime.models.kubernetes.workloads import Deployment, DeploymentStatus
from gpuruntime.operations.tombstones import Tombstones
from gpuruntime.reconcilers.caches import Caches
from gpuruntime.reconcilers.informers import Informers, ReconcilerContext
from gpuruntime.reconcilers.storage.holders import StorageHolders
from gpuruntime.reconcilers.storage.observation import StorageObserver
from gpuruntime.reconcilers.storage.observed import Observed
from gpuruntime.reconcilers.storage.triggers import READS, StorageTriggers
from gpuruntime.reconcilers.storage.writes import StorageWrites
from gpuruntime.reconcilers.unit.start_locks import StartLocks
from tests.rooms.operations.cluster import INSTANCE, SYSTEM, Cluster, clock
from tests.rooms.reconcilers.noted_cache import NotedCache
from tests.rooms.reconcilers.world import OPTIONS, SETTLED

pytestmark = pytest.mark.looptime

MOMENT: Final = datetime(2026, 1, 1, tzinfo=UTC)
KEY: Final = Key(INSTANCE, "s")
OWNER: Final = OwnerReference(kind="GPUStorage", name="s", uid="uid-s", controller=True)
UNIT: Final = Holder(name="u", uid="uid-u")
NO_RECORD: Final = PrepareStatus()
RECORD: Final = PrepareStatus(phase="Running", jobName="j", observedDigest="d")
READY: Final = (Condition(type="Ready", status="True", reason="VolumeReady"),)
# The actor's keepers compare these children with what is desired.
KEPT: Final = {"services", "policies"}


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


def claim(phase: str = "Bound") -> VolumeClaim:
    return VolumeClaim(
        metadata=meta("s", annotations={labels.OWNER_UID: "uid-s"}),
        spec=VolumeClaimSpec(storageClassName="fast"),
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
    """Informers that a test fills by hand, and the storages' triggers and observer over them."""

    def __init__(self, *objects: Any) -> None:
        client = Client(InProcessTransport(Cluster().server))
        self._informers = Informers(
            ReconcilerContext(
                client=client,
                options=OPTIONS,
                retention_seconds=60.0,
                term=lambda: SETTLED,
                now=clock,
                rng=Random(3),
                meter=NullMeter(),
            )
        )
        leadership = Leadership()
        self._triggers = StorageTriggers(
            self._informers, leadership, namespace=INSTANCE, meter=NullMeter()
        )
        for each in objects:
            self.put(each)
        leadership.begin()
        self.reads: set[str] = set()
        caches = self._noting(self._informers.caches())
        tombstones = Tombstones(client, namespace=SYSTEM, retention_seconds=60.0, now=clock)
        self._holders = StorageHolders(
            client,
            caches,
            writes=StorageWrites(client=client, storages=caches.storages),
            starts=StartLocks(),
            term=lambda: SETTLED,
        )
        self._observer = StorageObserver(
            client=client, caches=caches, tombstones=tombstones, now=clock
        )

    def put(self, value: Any) -> None:
        informer: dict[type, Informer[Any]] = {
            GPUStorage: self._informers.storages,
            GPUUnit: self._informers.units,
            Pod: self._informers.pods[INSTANCE],
            VolumeClaim: self._informers.claims,
            StorageClass: self._informers.classes,
            Job: self._informers.jobs,
            Deployment: self._informers.deployments[INSTANCE],
        }
        assert informer[type(value)].write_through(value)

    async def observe(self) -> Observed:
        storage = self._observer.cached(KEY)
        assert storage is not None
        async with self._holders.settled(storage) as holding:
            return await self._observer.observe(storage, holding)

    async def drain(self) -> set[Key]:
        queue, found = self._triggers.storages, set()
        while queue.depth:
            key = await queue.get()
            queue.done(key)
            found.add(key)
        return found

    def _noting(self, caches: Caches) -> Caches:
        noted: dict[str, Any] = {}
        for field in attrs.fields(Caches):
            cache = getattr(caches, field.name)
            if isinstance(cache, dict):
                noted[field.name] = {
                    name: NotedCache(each, field.name, self.reads) for name, each in cache.items()
                }
            else:
                noted[field.name] = NotedCache(cache, field.name, self.reads)
        return Caches(**noted)


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


def newer(value: Any) -> Any:
    return attrs.evolve(value, metadata=attrs.evolve(value.metadata, resourceVersion="2"))


@pytest.mark.parametrize(
    ("before", "change"), CHANGES.values(), ids=[f"{each} wakes it" for each in CHANGES]
)
async def test_a_storage_is_woken_by_what_it_observes(
    before: tuple[Any, ...], change: Any
) -> None:
    scene = Scene(*before)
    await scene.drain()
    seen = await scene.observe()
    scene.put(newer(change))
    woken = await scene.drain()
    assert await scene.observe() != seen
    assert KEY in woken


async def test_every_cache_that_is_read_is_declared_and_every_declared_one_is_read() -> None:
    reads = set(KEPT)
    for before, change in CHANGES.values():
        scene = Scene(*before)
        scene.put(newer(change))
        await scene.observe()
        reads |= scene.reads
    assert reads == set(READS)
