"""Who of a role's processes leads: an elector as the configuration asks for it."""

import asyncio
from typing import Final

from gpuruntime.kube.lease import Elector, LeaseOptions
from gpuruntime.kube.transport import Transport
from gpuruntime.models.metadata import Key
from gpuruntime.observe.metrics import Registry
from gpuruntime.roles.process import Process
from gpuruntime.settings import LeaderElectionSettings, Settings

MANAGER_LEASE: Final = LeaderElectionSettings().leaseName
ACTIVATOR_LEASE: Final = "gpuruntime-activator"


def elector_of(
    settings: Settings,
    transport: Transport,
    process: Process,
    registry: Registry,
    *,
    lease_name: str,
) -> Elector | None:
    """None where nobody is elected, and everybody leads."""
    chosen = settings.leaderElection
    if not settings.elects_leader:
        return None
    options = LeaseOptions(
        key=Key(settings.namespaces.system, lease_name),
        identity=process.identity,
        lease_duration_seconds=chosen.leaseDuration,
        renew_deadline_seconds=chosen.renewDeadline,
        retry_period_seconds=chosen.retryPeriod,
    )
    elector = Elector(
        transport,
        options,
        clock=asyncio.get_running_loop().time,
        now=process.now,
        rng=process.rng,
        meter=registry,
    )
    elector.gives_back = False
    return elector


def activator_lease(settings: Settings) -> str:
    """One of its own also where nothing is said: two roles on one Lease keep each other out."""
    chosen = settings.leaderElection.leaseName
    return ACTIVATOR_LEASE if chosen == MANAGER_LEASE else chosen
