"""Children and status of a unit that may start, whether it is active or stock."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Final

import attrs
import structlog

from gpuruntime.controller.controller import DONE, Result
from gpuruntime.kube.client import Client
from gpuruntime.kube.errors import NotFoundError
from gpuruntime.kube.events import EventRecorder, record_note
from gpuruntime.meter import Meter, NullMeter
from gpuruntime.models.encoding import codec
from gpuruntime.models.encoding.json import JsonObject
from gpuruntime.models.kinds import labels, provenance
from gpuruntime.models.kinds.reasons import UnitReason
from gpuruntime.models.kinds.units import GPU_UNITS, GPUUnit, GPUUnitStatus, Timeline, child_key
from gpuruntime.models.kubernetes.metadata import Key
from gpuruntime.models.kubernetes.network import NetworkPolicy, Service
from gpuruntime.models.kubernetes.pods import PODS, Pod
from gpuruntime.models.kubernetes.workloads import Deployment
from gpuruntime.operations.lookup.caches import Cache
from gpuruntime.reconcilers.caches import Caches
from gpuruntime.reconcilers.children.drift import Child
from gpuruntime.reconcilers.children.keeper import ChildKeeper, ChildSyncError
from gpuruntime.reconcilers.events import unit_note
from gpuruntime.reconcilers.functions.worker_secrets import WorkerSecrets
from gpuruntime.reconcilers.options import UnitOptions
from gpuruntime.reconcilers.storage.mount_plan import (
    Blocked,
    Mountable,
    as_suspended,
    with_held_mounts,
)
from gpuruntime.reconcilers.unit.children import deployment_of, policy_of, service_of
from gpuruntime.reconcilers.unit.earlier_pods import awaited_pods, own_pods, waiting_message
from gpuruntime.reconcilers.unit.pod_template import Placement, has_worker
from gpuruntime.reconcilers.unit.status import (
    Verdict,
    is_serving,
    look_again_seconds,
    running_verdict,
    running_with_fault,
    stages_of,
    status_of,
    waiting_verdict,
)

log = structlog.get_logger()

# A child that the cluster refused is retried after this many seconds.
REFUSED_SECONDS: Final = 15.0
# A running unit that waits for a storage checks this often whether units wait for it in turn. A
# unit that closes such a wait cycle triggers its direct neighbours only.
CIRCLE_SECONDS: Final = 15.0
# A unit that waits for an earlier unit's Pod checks this often, beside the event of the Pod's end.
LEFT_SECONDS: Final = 15.0


@attrs.frozen(kw_only=True, slots=True)
class Runner:
    """Runner keeps a unit's children and reports its status.

    The Service is created before the Deployment, so that a Pod can be reached as soon as it is
    ready.
    """

    client: Client
    caches: Caches
    options: UnitOptions
    deployments: Mapping[str, ChildKeeper[Deployment]]
    services: ChildKeeper[Service]
    policies: ChildKeeper[NetworkPolicy]
    secrets: WorkerSecrets
    recorder: EventRecorder
    now: Callable[[], datetime]
    meter: Meter = NullMeter()

    async def run(self, unit: GPUUnit, mounts: Mountable | None = None) -> Result:
        """Keep all children, and report in the status what was refused or has another owner."""
        key = child_key(unit)
        if self._lacks_a_child(unit, key) and not await self._is_alive(unit):
            return DONE
        if awaited := await self._awaited(unit):
            return await self._wait_for(awaited, unit, key)
        try:
            await self.deployments[key.namespace].demand_own(unit, key)
            await self._keep_network(unit, key)
            desired = self._desired(unit)
            deployment = await self.deployments[key.namespace].keep(unit, key, desired)
        except ChildSyncError as error:
            return await self._refused(unit, error)
        pods, now = self._pods_of(unit, deployment), self.now()
        verdict = attrs.evolve(running_verdict(unit, deployment, pods, now=now), mounts=mounts)
        await self.report(unit, verdict, deployment)
        return self._again(unit, look_again_seconds(deployment, pods, now=now))

    async def wait(self, unit: GPUUnit, blocked: Blocked) -> Result:
        """Keep the unit as it is while it may not mount its storages.

        A running Pod goes on, isolated as before, unless the unit must end it for another. No new
        Pod starts.
        """
        deployment = self.deployment_of(unit)
        pods = self._pods_of(unit, deployment)
        runs = deployment is not None and deployment.status.replicas > 0
        is_there = runs or bool(pods)
        key = child_key(unit)
        if is_there and self._lacks_a_child(unit, key) and not await self._is_alive(unit):
            return DONE
        keeper, desired = self.deployments[key.namespace], self._desired(unit)
        try:
            if is_there:
                await self._keep_network(unit, key)
            if deployment is not None and blocked.makes_way:
                deployment = await keeper.keep(unit, key, self._desired(as_suspended(unit)))
            elif deployment is not None:
                deployment = await keeper.hold(deployment, desired)
        except ChildSyncError as error:
            return await self._refused(unit, error)
        if deployment is None or not runs or keeper.is_behind(deployment, desired):
            await self.report(unit, waiting_verdict(blocked, runs=runs), deployment)
            return Result(CIRCLE_SECONDS) if runs else DONE
        now = self.now()
        verdict = running_verdict(unit, deployment, pods, now=now)
        await self.report(unit, running_with_fault(verdict, blocked), deployment)
        return self._again(unit, look_again_seconds(deployment, pods, now=now))

    def _again(self, unit: GPUUnit, seconds: float | None) -> Result:
        """Return the earlier of two times: to check the Pod, and to check a worker's Secret."""
        return Result.earliest(seconds, self.secrets.look_again_seconds(unit))

    async def _refused(self, unit: GPUUnit, error: ChildSyncError) -> Result:
        await self.report(unit, Verdict(reason=UnitReason(error.reason), message=str(error)))
        return Result(requeue_after_seconds=REFUSED_SECONDS)

    async def _awaited(self, unit: GPUUnit) -> tuple[Pod, ...]:
        """Return the Pods of an earlier unit of this name, read live if the cache has none.

        Stock never waits, because no Service leads to it. If another owner's child stands in the
        way, no Pod is created anyway, so the Pods are not read live.
        """
        if self._is_stock(unit.metadata.key) or self.deployment_of(unit) is not None:
            return ()
        awaited = awaited_pods(unit, self.caches.pods_of(unit.metadata.key))
        if not awaited and await self._is_obstructed(unit):
            return ()
        awaited = awaited or awaited_pods(unit, await self._live_pods(unit))
        return () if awaited and await self.has_live_deployment(unit) else awaited

    async def _wait_for(self, awaited: tuple[Pod, ...], unit: GPUUnit, key: Key) -> Result:
        """Wait, without a Service or a NetworkPolicy: they would select the earlier Pods."""
        await self.services.drop(unit, key)
        await self.policies.drop(unit, key)
        obstacle = await self.deployments[key.namespace].obstacle(unit, key)
        message = waiting_message(unit, awaited, obstacle)
        reason = UnitReason.DEPLOYMENT_PROGRESSING
        await self.report(unit, Verdict(reason=reason, message=message))
        return Result(requeue_after_seconds=LEFT_SECONDS)

    async def _is_obstructed(self, unit: GPUUnit) -> bool:
        key = child_key(unit)
        if await self.deployments[key.namespace].obstacle(unit, key):
            return True
        is_served = service_of(unit, self.options) is not None
        if is_served and await self.services.obstacle(unit, key):
            return True
        return bool(await self.policies.obstacle(unit, key))

    def _pods_of(self, unit: GPUUnit, deployment: Deployment | None) -> tuple[Pod, ...]:
        pods = self.caches.pods_of(unit.metadata.key)
        return own_pods(unit, pods, has_deployment=deployment is not None)

    async def _live_pods(self, unit: GPUUnit) -> tuple[Pod, ...]:
        page = await self.client.list_page(
            PODS,
            namespace=unit.metadata.namespace,
            label_selector=f"{labels.UNIT}={unit.metadata.name}",
        )
        return tuple(page.items)

    async def stop(self, unit: GPUUnit) -> None:
        """Delete the unit's children; the NetworkPolicy follows when the last Pod is gone."""
        key = child_key(unit)
        await self.deployments[key.namespace].drop(unit, key)
        if unit.metadata.namespace == self.options.instance_namespace:
            await self.services.drop(unit, key)
            await self._drop_policy_after_pods(unit, key)

    async def report(
        self, unit: GPUUnit, verdict: Verdict, deployment: Deployment | None = None
    ) -> None:
        """Write the status if it differs; then record its metrics and its Event."""
        key = unit.metadata.key
        kept = deployment or self.deployment_of(unit)
        status = status_of(
            unit,
            verdict,
            deployment=kept,
            pods=self._pods_of(unit, kept),
            options=self.options,
            now=self.now(),
        )
        if status == unit.status:
            return
        try:
            written = await self.client.patch(
                GPU_UNITS,
                key,
                {"status": _without_serverless(status)},
                resource_version=unit.metadata.resourceVersion,
                subresource="status",
            )
        except NotFoundError:
            # The unit was deleted meanwhile, and its children are collected with it.
            return
        self._cache_of(key).write_through(written)
        if not self._is_stock(key):
            self._measure_start(unit.status.timeline, status.timeline)
        if status.phase != unit.status.phase:
            log.info("phase changed", phase=str(status.phase), reason=str(verdict.reason))
        note = unit_note(unit, status, is_stock=self._is_stock(key))
        if note is not None:
            record_note(self.recorder, GPU_UNITS, unit, note)

    def _measure_start(self, before: Timeline, now: Timeline) -> None:
        """Measure the stages when the unit becomes ready for the first time."""
        if before.readyAt is not None or now.readyAt is None:
            return
        for stage, seconds in stages_of(now).items():
            self.meter.observe("unit_stage_seconds", seconds, stage=stage)

    def deployment_of(self, unit: GPUUnit) -> Deployment | None:
        return self.deployments[unit.metadata.namespace].owned(child_key(unit), unit)

    async def has_live_deployment(self, unit: GPUUnit) -> bool:
        deployments = self.deployments[unit.metadata.namespace]
        return await deployments.owned_live(child_key(unit), unit) is not None

    def _lacks_a_child(self, unit: GPUUnit, key: Key) -> bool:
        """Return whether a child is missing that a started unit has had."""
        if unit.status.timeline.createdAt is None:
            return False
        if self.deployments[key.namespace].find(key) is None:
            return True
        if self._is_stock(key):
            return False
        is_unserved = self.services.find(key) is None and bool(service_of(unit, self.options))
        return is_unserved or self.policies.find(key) is None

    async def _is_alive(self, unit: GPUUnit) -> bool:
        """Read the unit live: its children may be collected before the cache sees its end."""
        try:
            live = await self.client.get(GPU_UNITS, unit.metadata.key)
        except NotFoundError:
            return False
        return live.metadata.uid == unit.metadata.uid and not provenance.is_terminating(live)

    async def _keep_network(self, unit: GPUUnit, key: Key) -> None:
        """Keep the NetworkPolicy and the Service; the policy must exist before any Pod does.

        Stock needs neither: it serves no requests, and one policy closes its whole namespace.
        """
        if self._is_stock(key):
            return
        if has_worker(unit, self.options):
            await self._keep_login(unit)
        await self.policies.keep(unit, key, policy_of(unit, self.options))
        desired = service_of(unit, self.options)
        if desired is not None:
            await self.services.keep(unit, key, desired)
        else:
            await self.services.drop(unit, key)

    async def _drop_policy_after_pods(self, unit: GPUUnit, key: Key) -> None:
        """Delete the NetworkPolicy after the last Pod; the cache may lack some, so read live."""
        if self.policies.owned(key, unit) is None or self.caches.pods_of(unit.metadata.key):
            return
        if not await self._live_pods(unit):
            await self.policies.drop(unit, key)

    async def _keep_login(self, worker: GPUUnit) -> None:
        """Keep the worker's Secret; if that fails, a serving worker keeps its present login.

        Raise ChildSyncError if the worker does not serve yet, or if its configuration is invalid.
        """
        try:
            await self.secrets.keep(worker, self._template_of(worker))
        except ChildSyncError as error:
            deployment = self.deployment_of(worker)
            pods = self.caches.pods_of(worker.metadata.key)
            serves = deployment is not None and is_serving(deployment, pods)
            if not serves or error.reason is UnitReason.SERVERLESS_CONFIG_INVALID:
                raise
            log.warning("login of a worker not looked after", error=str(error))

    def _template_of(self, worker: GPUUnit) -> GPUUnit | None:
        function = worker.spec.serverless
        if function is None or function.workerOf is None:
            return None
        key = Key(worker.metadata.namespace, function.workerOf.name)
        return self.caches.units.store.get(key)

    def _desired(self, unit: GPUUnit) -> Child:
        """Return the desired Deployment; a suspended unit mounts only storages that it holds."""
        stored, namespace = self.caches.storages.store, unit.metadata.namespace
        if unit.spec.suspended:
            unit = with_held_mounts(unit, lambda name: stored.get(Key(namespace, name)))
        return deployment_of(unit, self.options, self._placement(unit))

    def _placement(self, unit: GPUUnit) -> Placement:
        if self._is_stock(unit.metadata.key):
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

    def _cache_of(self, key: Key) -> Cache[GPUUnit]:
        return self.caches.stock if self._is_stock(key) else self.caches.units

    def _is_stock(self, key: Key) -> bool:
        return key.namespace == self.options.stock_namespace


def _without_serverless(status: GPUUnitStatus) -> JsonObject:
    """Leave out `serverless`, which the activator writes. A merge patch does not change it."""
    members = codec.to_json(status)
    return {name: member for name, member in members.items() if name != "serverless"}
