"""Observation of a unit: all reads of its reconciler, the caches first.

A unit that has started and lacks no child costs no live read.
"""

from collections.abc import Callable

import attrs

from gpuruntime.kube.client import Client
from gpuruntime.kube.errors import NotFoundError
from gpuruntime.models.kinds import labels, provenance
from gpuruntime.models.kinds.tombstones import Tombstone
from gpuruntime.models.kinds.units import GPU_UNITS, GPUUnit, child_key
from gpuruntime.models.kubernetes.metadata import Key
from gpuruntime.models.kubernetes.pods import PODS
from gpuruntime.models.kubernetes.resources import Resource
from gpuruntime.models.kubernetes.workloads import DEPLOYMENTS
from gpuruntime.operations.lookup.caches import FUNCTION, OPERATION, ObjectT
from gpuruntime.operations.lookup.repository import owner_of
from gpuruntime.operations.tombstones import Tombstones
from gpuruntime.reconcilers.caches import Caches
from gpuruntime.reconcilers.children.refusals import is_owned_by
from gpuruntime.reconcilers.options import UnitOptions
from gpuruntime.reconcilers.storage.holders import StorageHolders
from gpuruntime.reconcilers.storage.mount_plan import Blocked, Mounts
from gpuruntime.reconcilers.unit.act import ChildKeepers
from gpuruntime.reconcilers.unit.children import is_served
from gpuruntime.reconcilers.unit.observed import FirstStart, Observed
from gpuruntime.reconcilers.unit.pod_template import Placement
from gpuruntime.reconcilers.unit.reclaim_stock import may_take_again
from gpuruntime.reconcilers.unit.start_locks import StartLocks
from gpuruntime.reconcilers.unit.start_plan import Candidate, Start, Term, has_started
from gpuruntime.strict import validation


@attrs.frozen(kw_only=True, slots=True)
class UnitObserver:
    client: Client
    caches: Caches
    options: UnitOptions
    keepers: ChildKeepers
    tombstones: Tombstones
    holders: StorageHolders
    starts: StartLocks
    term: Callable[[], Term]
    # Units are woken when it changes.
    gateway_ready: Callable[[], bool | None]

    def cached(self, key: Key) -> GPUUnit | None:
        is_stock = key.namespace == self.options.stock_namespace
        return (self.caches.stock if is_stock else self.caches.units).store.get(key)

    async def observe(self, key: Key) -> Observed | None:
        """Return what the unit's plan depends on, or None if the unit is gone or terminating."""
        unit = self.cached(key)
        if unit is None or provenance.is_terminating(unit):
            return None
        seen = self._from_caches(unit)
        if seen.problems:
            return seen
        has_begun = has_started(unit, has_deployment=seen.own_deployment is not None)
        if not (seen.is_stock or has_begun):
            first_start = await self._first_start(unit)
            # The caches may have moved on during the live reads.
            seen = attrs.evolve(self._from_caches(unit), first_start=first_start)
        if not isinstance(seen.gate, Start):
            return seen
        if unit.spec.is_function_template and not seen.is_stock:
            return attrs.evolve(seen, has_unseen_pods=await self._has_unseen_pods(seen))
        if isinstance(seen.mounts, Blocked) and not seen.has_pods:
            return seen
        return await self._with_live_children(seen)

    def _from_caches(self, unit: GPUUnit) -> Observed:
        key, child = unit.metadata.key, child_key(unit)
        caches, function = self.caches, unit.spec.serverless
        declarers = caches.units.store.by_index(FUNCTION, function.requestID) if function else ()
        template = function.workerOf if function else None
        storages = (
            caches.storages.store.get(Key(key.namespace, mount.name))
            for mount in unit.spec.storageMounts
        )
        seen = Observed(
            unit=unit,
            is_stock=key.namespace == self.options.stock_namespace,
            problems=validation.unit_problems(unit),
            deployment=caches.deployments[key.namespace].store.get(child),
            service=caches.services.store.get(child),
            policy=caches.policies.store.get(child),
            mounts=self._mounts(unit),
            storages={each.metadata.name: each for each in storages if each is not None},
            placement=self._placement(unit),
            template=caches.units.store.get(Key(key.namespace, template.name))
            if template
            else None,
            function_owner=owner_of(declarers),
            is_gateway_ready=self.gateway_ready(),
        )
        by_name = () if labels.UNIT_UID in seen.selector else caches.pods_of(key, uid="")
        pods = caches.pods_of(key, uid=unit.metadata.uid)
        return attrs.evolve(seen, pods=(*by_name, *pods))

    def _mounts(self, unit: GPUUnit) -> Mounts | None:
        spec = unit.spec
        is_idle = spec.suspended or spec.is_function_template or not spec.storageMounts
        is_stock = unit.metadata.namespace == self.options.stock_namespace
        return None if is_idle or is_stock else self.holders.look(unit)

    def _placement(self, unit: GPUUnit) -> Placement:
        if unit.metadata.namespace == self.options.stock_namespace:
            priority = self._known_priority(self.options.stock_priority)
            return Placement(priority_class=priority, ends_at_once=True)
        return Placement(
            priority_class=self._known_priority(self.options.instance_priority),
            preferred_node=self._preferred_node(unit),
        )

    def _preferred_node(self, unit: GPUUnit) -> str:
        """Return the node of the unit's stock, which keeps a place there, else its last node."""
        source = provenance.source_of(unit)
        stock = self.caches.stock.store.get(source) if source else None
        is_own = stock is not None and stock.metadata.uid == provenance.source_uid_of(unit)
        return stock.status.nodeName if stock and is_own else unit.status.nodeName

    def _known_priority(self, name: str) -> str:
        """Return the name if the PriorityClass exists, else nothing: the Pod would be refused."""
        return name if self.caches.priorities.store.get(Key("", name)) else ""

    async def _first_start(self, unit: GPUUnit) -> FirstStart:
        """Read live whether the unit may start, since a cache may lack what others have done.

        These are units of the same operation, with their Deployments: an earlier leader may have
        started one of them. The tombstone says whether the operation has ended. The stock may have
        been freed and claimed for another unit.
        """
        rivals = await self._rivals(unit)
        return FirstStart(
            has_started=bool(rivals) and await self._has_started(unit),
            rivals=rivals,
            tombstone=await self._tombstone(unit),
            stock=await self._stock(unit),
            unsettled_seconds=self._unsettled_seconds(rivals),
            own_stock=self._own_stock(unit),
        )

    async def _rivals(self, unit: GPUUnit) -> tuple[Candidate, ...]:
        operation = provenance.operation_of(unit)
        if not operation:
            return ()
        rivals = []
        for each in tuple(self.caches.units.store.by_index(OPERATION, operation)):
            if each.metadata.uid == unit.metadata.uid:
                continue
            live = await self._live(GPU_UNITS, each.metadata.key)
            if live is not None and live.metadata.uid == each.metadata.uid:
                rivals.append(Candidate(unit=live, has_started=await self._has_started(live)))
        return tuple(rivals)

    async def _has_started(self, unit: GPUUnit) -> bool:
        return has_started(unit, has_deployment=await self._has_live_deployment(unit))

    async def _tombstone(self, unit: GPUUnit) -> Tombstone | None:
        operation = provenance.operation_of(unit)
        return await self.tombstones.find(operation) if operation else None

    async def _stock(self, unit: GPUUnit) -> GPUUnit | None:
        source = provenance.source_of(unit)
        return await self._live(GPU_UNITS, source) if source else None

    def _unsettled_seconds(self, rivals: tuple[Candidate, ...]) -> float:
        """Return for how many seconds a request in flight may still start a rival.

        Such a request is one of an earlier leader, or one of ours whose answer was lost.
        """
        lost = self.starts.unsettled_seconds(each.unit.metadata.key for each in rivals)
        return max(self.term().unsettled_seconds, lost)

    def _own_stock(self, unit: GPUUnit) -> tuple[GPUUnit, ...]:
        """Return the stock that this unit may take again: claimed for it, or named by it."""
        stock = self.caches.stock.store
        source = provenance.source_of(unit)
        named = stock.get(source) if source else None
        claimed = stock.by_index(OPERATION, provenance.operation_of(unit))
        return tuple(each for each in (*claimed, named) if each and may_take_again(each, unit))

    async def _with_live_children(self, seen: Observed) -> Observed:
        """Read live what a cache must not be trusted with before a child is created.

        A child of another owner has none of our labels, so no cache has it. A unit that has lost a
        child may be gone, as its children are collected before the cache sees its end.
        """
        unit, key, keepers = seen.unit, child_key(seen.unit), self.keepers
        is_blocked = isinstance(seen.mounts, Blocked)
        if not is_blocked:
            deployment = await keepers.deployments[key.namespace].known(unit, key)
            seen = attrs.evolve(seen, deployment=deployment)
        if is_served(unit, self.options):
            seen = attrs.evolve(seen, service=await keepers.services.known(unit, key))
        if not seen.is_stock:
            seen = attrs.evolve(seen, policy=await keepers.policies.known(unit, key))
        if self._lacks_a_child(seen) and not await self._exists(unit):
            return attrs.evolve(seen, is_gone=True)
        return seen

    def _lacks_a_child(self, seen: Observed) -> bool:
        """Return whether a child is missing that a started unit has had."""
        if seen.unit.status.timeline.createdAt is None:
            return False
        lacks_policy = seen.policy is None and not seen.is_stock
        lacks_service = seen.service is None and is_served(seen.unit, self.options)
        return seen.deployment is None or lacks_policy or lacks_service

    async def _exists(self, unit: GPUUnit) -> bool:
        live = await self._live(GPU_UNITS, unit.metadata.key)
        is_same = live is not None and live.metadata.uid == unit.metadata.uid
        return is_same and live is not None and not provenance.is_terminating(live)

    async def _has_unseen_pods(self, seen: Observed) -> bool:
        """List the Pods before the policy of a template is deleted: the cache may lack some."""
        is_last = seen.deployment is None and not seen.pods and seen.owns(seen.policy)
        if not is_last:
            return False
        metadata = seen.unit.metadata
        page = await self.client.list_page(
            PODS,
            namespace=metadata.namespace,
            label_selector=f"{labels.UNIT}={metadata.name}",
        )
        # A Pod of an older version has no uid.
        uids = {pod.metadata.labels.get(labels.UNIT_UID, "") for pod in page.items}
        return not uids.isdisjoint(("", metadata.uid))

    async def _has_live_deployment(self, unit: GPUUnit) -> bool:
        live = await self._live(DEPLOYMENTS, child_key(unit))
        return live is not None and is_owned_by(live, unit)

    async def _live(self, resource: Resource[ObjectT], key: Key) -> ObjectT | None:
        try:
            return await self.client.get(resource, key)
        except NotFoundError:
            return None
