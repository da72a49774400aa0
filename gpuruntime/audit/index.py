"""An index of the snapshot's objects, in which the rules look up what they need."""

from collections import defaultdict
from collections.abc import Iterator
from typing import Final

import attrs

from gpuruntime.audit.snapshot import Snapshot
from gpuruntime.models.kinds import labels, provenance
from gpuruntime.models.kinds.phases import UnitPhase
from gpuruntime.models.kinds.pools import STOCK_POOLS, StockPool
from gpuruntime.models.kinds.storages import GPUStorage
from gpuruntime.models.kinds.tombstones import tombstone_of
from gpuruntime.models.kinds.units import GPUUnit, child_key
from gpuruntime.models.kubernetes.metadata import Key
from gpuruntime.models.kubernetes.network import NetworkPolicy
from gpuruntime.models.kubernetes.pods import Pod
from gpuruntime.models.kubernetes.volumes import Job, VolumeClaim
from gpuruntime.models.kubernetes.workloads import Deployment

Units = defaultdict[str, list[GPUUnit]]
Pods = defaultdict[Key, list[Pod]]
# A Pod in one of these phases writes no more.
ENDED: Final = frozenset({"Failed", "Succeeded"})


@attrs.define(kw_only=True, slots=True)
class Tally:
    """Counts of one pool's stock; unclaimed terminating stock counts only in `there`."""

    there: int = 0
    free: int = 0
    claimed: int = 0
    # The free and claimed units whose ordinal is at most the pool's `seeded`.
    recorded: int = 0
    # Free units with another image or template than the pool's, and those of them that failed.
    stale: int = 0
    stale_failed: int = 0
    # Free units with the pool's image and template that are not ready.
    starting: int = 0

    def add(self, stock: GPUUnit, pool: StockPool) -> None:
        self.there += 1
        is_claimed = provenance.is_claimed(stock)
        if not is_claimed and provenance.is_terminating(stock):
            return
        self.claimed += is_claimed
        self.free += not is_claimed
        self.recorded += provenance.ordinal_of(stock) <= pool.status.seeded
        if is_claimed:
            return
        phase = provenance.present_phase(stock)
        if provenance.is_stale(stock, pool):
            self.stale += 1
            self.stale_failed += phase is UnitPhase.FAILED
        else:
            self.starting += phase is not UnitPhase.READY


@attrs.define(kw_only=True, slots=True)
class SnapshotIndex:
    """The objects of a snapshot by their names and owners; complete once `gather` is exhausted."""

    snapshot: Snapshot
    # Units of both namespaces.
    unit_by_key: dict[Key, GPUUnit] = attrs.field(factory=dict)
    unit_by_uid: dict[str, GPUUnit] = attrs.field(factory=dict)
    stock_by_uid: dict[str, GPUUnit] = attrs.field(factory=dict)
    pool_by_key: dict[Key, StockPool] = attrs.field(factory=dict)
    pool_by_uid: dict[str, StockPool] = attrs.field(factory=dict)
    # Counts of stock, by the uid of the pool that created it.
    tallies: defaultdict[str, Tally] = attrs.field(factory=lambda: defaultdict(Tally))
    # Active units that have started, by the uid of their stock and by their operation.
    started_by_source: Units = attrs.field(factory=lambda: defaultdict(list))
    started_by_operation: Units = attrs.field(factory=lambda: defaultdict(list))
    # Templates by the requestID that they declare, workers by their template's uid and by the key
    # of their Secret, and the specNames that have free stock.
    templates_of: Units = attrs.field(factory=lambda: defaultdict(list))
    workers_of: Units = attrs.field(factory=lambda: defaultdict(list))
    worker_by_secret: dict[Key, GPUUnit] = attrs.field(factory=dict)
    free_specs: set[str] = attrs.field(factory=set)
    # Deleted objects according to tombstones: operations by uid, and the names of pools.
    buried: dict[str, str] = attrs.field(factory=dict)
    buried_pools: set[str] = attrs.field(factory=set)
    storage_by_key: dict[Key, GPUStorage] = attrs.field(factory=dict)
    storage_by_uid: dict[str, GPUStorage] = attrs.field(factory=dict)
    claim_by_key: dict[Key, VolumeClaim] = attrs.field(factory=dict)
    policy_by_key: dict[Key, NetworkPolicy] = attrs.field(factory=dict)
    # Pods that use a volume, by its claim: Pods of units, of storages that copy it, of file
    # servers, and of Jobs that fill it.
    mounting: Pods = attrs.field(factory=lambda: defaultdict(list))
    copying: Pods = attrs.field(factory=lambda: defaultdict(list))
    serving: Pods = attrs.field(factory=lambda: defaultdict(list))
    filling: Pods = attrs.field(factory=lambda: defaultdict(list))
    # Storages by the uid of the unit that holds them.
    held_by: defaultdict[str, list[GPUStorage]] = attrs.field(factory=lambda: defaultdict(list))
    job_by_key: dict[Key, Job] = attrs.field(factory=dict)
    # Jobs that fill a storage, by the uid of the storage.
    jobs_of: defaultdict[str, list[Job]] = attrs.field(factory=lambda: defaultdict(list))
    deployment_by_key: dict[Key, Deployment] = attrs.field(factory=dict)
    _deployed: set[str] = attrs.field(factory=set)

    def gather(self) -> Iterator[None]:
        """Add one object in each step; pools come before their stock."""
        snapshot = self.snapshot
        for deployment in snapshot.deployments or ():
            self._deployed.update(owner.uid for owner in deployment.metadata.ownerReferences)
            self.deployment_by_key[deployment.metadata.key] = deployment
            yield
        for pool in snapshot.pools:
            self.pool_by_key[pool.metadata.key] = pool
            self.pool_by_uid[pool.metadata.uid] = pool
            yield
        for stock in snapshot.stock:
            self._add_stock(stock)
            yield
        for unit in snapshot.units:
            self._add_unit(unit)
            yield
        yield from self._gather_storages()
        for held in snapshot.tombstones or ():
            tombstone = tombstone_of(held)
            for each in tombstone.buried:
                self.buried[each.uid] = tombstone.operation_id
                if each.kind == STOCK_POOLS.kind:
                    self.buried_pools.add(each.name)
            yield

    def has_started(self, unit: GPUUnit) -> bool:
        """Return whether the unit has a Deployment, or a status that remembers one."""
        return unit.status.timeline.createdAt is not None or unit.metadata.uid in self._deployed

    def unit_of(self, pod: Pod) -> GPUUnit | None:
        """Return the unit that the Pod runs for, or None if it is gone.

        A Pod of an older version has no uid, and belongs to the unit of its name.
        """
        marks = pod.metadata.labels
        unit = self.unit_by_key.get(Key(pod.metadata.namespace, marks.get(labels.UNIT, "")))
        uid = unit.metadata.uid if unit else ""
        return unit if marks.get(labels.UNIT_UID, uid) == uid else None

    def _gather_storages(self) -> Iterator[None]:
        snapshot = self.snapshot
        for storage in snapshot.storages or ():
            self.storage_by_key[storage.metadata.key] = storage
            self.storage_by_uid[storage.metadata.uid] = storage
            if storage.status.holder is not None:
                self.held_by[storage.status.holder.uid].append(storage)
            yield
        for claim in snapshot.claims or ():
            self.claim_by_key[claim.metadata.key] = claim
            yield
        for policy in snapshot.policies or ():
            self.policy_by_key[policy.metadata.key] = policy
            yield
        for job in snapshot.jobs or ():
            self.job_by_key[job.metadata.key] = job
            owner = job.metadata.controller_owner
            self.jobs_of[owner.uid if owner else ""].append(job)
            yield
        for pod in snapshot.pods or ():
            self._add_pod(pod)
            yield

    def _add_pod(self, pod: Pod) -> None:
        marks = pod.metadata.labels
        if pod.status.phase in ENDED:
            return
        for volume in pod.spec.volumes:
            if volume.persistentVolumeClaim is None:
                continue
            claim = Key(pod.metadata.namespace, volume.persistentVolumeClaim.claimName)
            if labels.UNIT in marks:
                self.mounting[claim].append(pod)
            elif labels.ACCESSOR in marks:
                self.serving[claim].append(pod)
            elif marks.get(labels.STORAGE, claim.name) != claim.name:
                self.copying[claim].append(pod)
            elif labels.PREPARE in marks:
                self.filling[claim].append(pod)

    def _add_stock(self, stock: GPUUnit) -> None:
        metadata = stock.metadata
        self.unit_by_key[metadata.key] = stock
        self.unit_by_uid[metadata.uid] = self.stock_by_uid[metadata.uid] = stock
        if provenance.is_free(stock):
            self.free_specs.add(stock.spec.specName)
        pool = self.pool_by_uid.get(metadata.annotations.get(labels.POOL_UID, ""))
        if pool is not None:
            self.tallies[pool.metadata.uid].add(stock, pool)

    def _add_unit(self, unit: GPUUnit) -> None:
        self.unit_by_key[unit.metadata.key] = unit
        self.unit_by_uid[unit.metadata.uid] = unit
        self._add_to_function(unit)
        if not self.has_started(unit):
            return
        if source := provenance.source_uid_of(unit):
            self.started_by_source[source].append(unit)
        if operation := provenance.operation_of(unit):
            self.started_by_operation[operation].append(unit)

    def _add_to_function(self, unit: GPUUnit) -> None:
        function = unit.spec.serverless
        if function is None:
            return
        if function.workerOf is None:
            self.templates_of[function.requestID].append(unit)
        else:
            self.workers_of[function.workerOf.uid].append(unit)
            self.worker_by_secret[child_key(unit)] = unit
