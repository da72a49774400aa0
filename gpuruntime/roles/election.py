"""The elector of a role, built from the configuration."""

from gpuruntime.concurrency.clock import loop_time
from gpuruntime.kube.events import EventRecorder
from gpuruntime.kube.lease import Elector, LeaseOptions
from gpuruntime.kube.transport import Transport
from gpuruntime.models.kubernetes.metadata import Key
from gpuruntime.roles.process import Process
from gpuruntime.settings.load import elects_leader
from gpuruntime.settings.schema import Settings
from gpuruntime.telemetry.metrics import Registry


def elector_of(
    settings: Settings,
    transport: Transport,
    process: Process,
    registry: Registry,
    *,
    role: str,
) -> Elector | None:
    """Return the elector, or None if there is no election and every process leads."""
    chosen = settings.leaderElection
    if not elects_leader(settings):
        return None
    options = LeaseOptions(
        key=Key(settings.namespaces.system, chosen.leaseName or f"gpuruntime-{role}"),
        identity=process.identity,
        lease_duration_seconds=chosen.leaseDuration,
        renew_deadline_seconds=chosen.renewDeadline,
        retry_period_seconds=chosen.retryPeriod,
    )
    elector = Elector(
        transport,
        options,
        clock=loop_time,
        now=process.now,
        rng=process.rng,
        meter=registry,
    )
    elector.gives_back = False
    return elector


def record_term(recorder: EventRecorder, elector: Elector) -> None:
    """Record an Event on the Lease, in the words of Kubernetes' own electors."""
    recorder.record(elector.lease, "LeaderElection", f"{elector.identity} became leader")
