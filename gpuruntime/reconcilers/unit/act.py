"""Carrying out a unit's plan: the only writes of its reconciler but its status."""

from collections.abc import Mapping
from typing import assert_never

import attrs
import structlog

from gpuruntime.kube.client import Client
from gpuruntime.kube.errors import NotFoundError
from gpuruntime.kube.events import EventRecorder, Note, record_note
from gpuruntime.models.kinds import provenance
from gpuruntime.models.kinds.reasons import UnitReason
from gpuruntime.models.kinds.units import GPU_UNITS, GPUUnit, child_key
from gpuruntime.models.kubernetes.network import NetworkPolicy, Service
from gpuruntime.models.kubernetes.workloads import Deployment
from gpuruntime.reconcilers.children.keeper import ChildKeeper, ChildSyncError
from gpuruntime.reconcilers.functions.worker_secrets import WorkerSecrets
from gpuruntime.reconcilers.storage.holders import StorageHolders
from gpuruntime.reconcilers.storage.mount_plan import Blocked
from gpuruntime.reconcilers.unit.intents import (
    ClaimStock,
    DeleteUnit,
    HoldDeployment,
    Intent,
    KeepDeployment,
    KeepPolicy,
    KeepSecret,
    KeepService,
    Outcome,
    Overtaken,
    Refused,
    RemoveDeployment,
    RemovePolicy,
    RemoveService,
    TakeStorages,
    Written,
)
from gpuruntime.reconcilers.unit.observed import Observed
from gpuruntime.reconcilers.unit.reclaim_stock import StockReclaimer
from gpuruntime.reconcilers.unit.status import Verdict

log = structlog.get_logger()


@attrs.frozen(kw_only=True, slots=True)
class ChildKeepers:
    """The keepers of units' children; each namespace has its own of Deployments."""

    deployments: Mapping[str, ChildKeeper[Deployment]]
    services: ChildKeeper[Service]
    policies: ChildKeeper[NetworkPolicy]


@attrs.frozen(kw_only=True, slots=True)
class UnitActor:
    client: Client
    keepers: ChildKeepers
    secrets: WorkerSecrets
    holders: StorageHolders
    reclaimer: StockReclaimer
    recorder: EventRecorder

    async def act(self, observed: Observed, intents: tuple[Intent, ...]) -> Outcome:
        """Carry out the intents in their order, until one is refused or changes the unit."""
        unit, key = observed.unit, child_key(observed.unit)
        deployments = self.keepers.deployments[key.namespace]
        deployment = observed.own_deployment
        try:
            for intent in intents:
                match intent:
                    case KeepDeployment(child):
                        live = observed.deployment
                        deployment = await deployments.ensure(unit, key, child, live=live)
                    case HoldDeployment(live, desired):
                        deployment = await deployments.hold(live, desired)
                    case KeepSecret():
                        await self._keep_secret(unit, intent)
                    case TakeStorages():
                        if isinstance(await self.holders.take(unit), Blocked):
                            return Overtaken(again_seconds=0.0)
                    case ClaimStock(own):
                        # A claim changes the unit, and that event reconciles it again.
                        if await self.reclaimer.claim_for(unit, own):
                            return Overtaken(again_seconds=None)
                    case DeleteUnit():
                        await self._delete(unit)
                    case _:
                        await self._keep_or_remove(observed, intent)
        except ChildSyncError as error:
            return Refused(Verdict(reason=UnitReason(error.reason), message=str(error)))
        seconds = self.secrets.look_again_seconds(unit)
        return Written(deployment=deployment, secret_seconds=seconds)

    async def _keep_or_remove(
        self,
        observed: Observed,
        intent: KeepPolicy | KeepService | RemovePolicy | RemoveService | RemoveDeployment,
    ) -> None:
        unit, key = observed.unit, child_key(observed.unit)
        services, policies = self.keepers.services, self.keepers.policies
        match intent:
            case KeepPolicy(child):
                await policies.ensure(unit, key, child, live=observed.policy)
            case KeepService(child):
                await services.ensure(unit, key, child, live=observed.service)
            case RemovePolicy(live):
                await policies.remove(live)
            case RemoveService(live):
                await services.remove(live)
            case RemoveDeployment(live):
                await self.keepers.deployments[key.namespace].remove(live)
            case _:
                assert_never(intent)

    async def _keep_secret(self, worker: GPUUnit, intent: KeepSecret) -> None:
        """Keep the worker's Secret; if that fails, a serving worker keeps its present login.

        Raise ChildSyncError if the worker does not serve yet, or if its configuration is invalid.
        """
        try:
            await self.secrets.keep(worker, intent.template)
        except ChildSyncError as error:
            if not intent.is_serving or error.reason is UnitReason.SERVERLESS_CONFIG_INVALID:
                raise
            log.warning("login of a worker not looked after", error=str(error))

    async def _delete(self, unit: GPUUnit) -> None:
        try:
            await self.client.delete(GPU_UNITS, unit.metadata.key, uid=unit.metadata.uid)
        except NotFoundError:
            return
        log.warning("unit of a finished operation removed", uid=unit.metadata.uid)
        text = f"operation {provenance.operation_of(unit)} has ended: its unit is removed"
        note = Note("OperationFinished", text, is_warning=True)
        record_note(self.recorder, GPU_UNITS, unit, note)
