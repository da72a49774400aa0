"""Intents of a unit's plan, and what can come of them."""

from typing import TypeAlias

import attrs

from gpuruntime.models.kinds.units import GPUUnit
from gpuruntime.models.kubernetes.network import NetworkPolicy, Service
from gpuruntime.models.kubernetes.workloads import Deployment
from gpuruntime.reconcilers.children.drift import Child
from gpuruntime.reconcilers.storage.mount_plan import Blocked, Mountable
from gpuruntime.reconcilers.unit.status import Verdict


@attrs.frozen(slots=True)
class KeepPolicy:
    child: Child


@attrs.frozen(slots=True)
class KeepService:
    child: Child


@attrs.frozen(slots=True)
class KeepDeployment:
    child: Child


@attrs.frozen(slots=True)
class HoldDeployment:
    """Keep the live Deployment as it was last applied, while the desired one has to wait."""

    live: Deployment
    desired: Child


@attrs.frozen(slots=True)
class RemovePolicy:
    live: NetworkPolicy


@attrs.frozen(slots=True)
class RemoveService:
    live: Service


@attrs.frozen(slots=True)
class RemoveDeployment:
    live: Deployment


@attrs.frozen(kw_only=True, slots=True)
class KeepSecret:
    """Keep the worker's Secret; a worker that serves outlives a failure with its present login."""

    template: GPUUnit | None
    is_serving: bool


@attrs.frozen(slots=True)
class TakeStorages:
    """Take the storages that the unit mounts; the plan ends here if one is no longer free."""


@attrs.frozen(slots=True)
class ClaimStock:
    """Claim stock for the unit, its own first; the plan ends here if some is claimed."""

    own: tuple[GPUUnit, ...]


@attrs.frozen(slots=True)
class DeleteUnit:
    pass


Intent: TypeAlias = (
    KeepPolicy
    | KeepService
    | KeepDeployment
    | HoldDeployment
    | RemovePolicy
    | RemoveService
    | RemoveDeployment
    | KeepSecret
    | TakeStorages
    | ClaimStock
    | DeleteUnit
)


@attrs.frozen(slots=True)
class RunningVerdict:
    """The verdict follows from the Deployment and its Pods, after the writes."""

    mounts: Mountable | None


@attrs.frozen(slots=True)
class BlockedVerdict:
    """The unit may not mount its storages; it waits unless its Deployment is the desired one."""

    blocked: Blocked
    desired: Child


@attrs.frozen(kw_only=True, slots=True)
class Plan:
    """Intents in the order of their writes, and the verdict, or None if nothing is reported."""

    intents: tuple[Intent, ...] = ()
    verdict: Verdict | RunningVerdict | BlockedVerdict | None = None
    again_seconds: float | None = None


@attrs.frozen(kw_only=True, slots=True)
class Written:
    """All intents were carried out; the unit's own Deployment is as after the writes."""

    deployment: Deployment | None
    # After this time the worker's Secret has to be kept again.
    secret_seconds: float | None


@attrs.frozen(slots=True)
class Refused:
    """A child cannot be kept; the intents behind it were not carried out."""

    verdict: Verdict


@attrs.frozen(slots=True)
class Overtaken:
    """The unit is no longer as observed, so there is nothing to report on it."""

    again_seconds: float | None


Outcome: TypeAlias = Written | Refused | Overtaken
