"""The election of a role's leader, built from the configuration."""

from collections.abc import Callable

from gpuruntime.concurrency.clock import loop_time
from gpuruntime.kube.events import EventRecorder
from gpuruntime.kube.lease import Elector, LeaseOptions
from gpuruntime.models.kubernetes.metadata import Key
from gpuruntime.roles.cluster_role import ClusterContext
from gpuruntime.settings.load import elects_leader
from gpuruntime.settings.options import options_of


class Election:
    """If no election is configured, every process leads at once and no fence closes."""

    def __init__(self, context: ClusterContext) -> None:
        self._elector = _elector_of(context) if elects_leader(context.settings) else None
        self._is_alone = context.is_alone

    @property
    def fence(self) -> Callable[[], None] | None:
        """Return what raises NotLeadingError once no write may start any more."""
        return self._elector.fence if self._elector else None

    @property
    def is_lease_held(self) -> bool:
        return self._elector is not None and self._elector.is_leading

    @property
    def follows_clean_end(self) -> bool:
        """Return whether no request of an earlier leader is in flight, once `won` has returned."""
        return self._elector.follows_clean_end if self._elector else self._is_alone

    def release_at_end(self) -> None:
        """Release the Lease at the end. Otherwise it is left to expire."""
        if self._elector is not None:
            self._elector.gives_back = True

    async def won(self, recorder: EventRecorder) -> None:
        """Wait until this process leads, and record an Event as Kubernetes' own electors do."""
        if self._elector is not None:
            await self._elector.leading.wait()
            words = f"{self._elector.identity} became leader"
            recorder.record(self._elector.lease, "LeaderElection", words)

    async def run(self) -> None:
        """Run until LeadershipLostError or cancellation; without an election, return at once."""
        if self._elector is not None:
            await self._elector.run()


def _elector_of(context: ClusterContext) -> Elector:
    settings, process = context.settings, context.process
    chosen = settings.leaderElection
    name = chosen.leaseName or f"gpuruntime-{context.registry.role}"
    key = Key(settings.namespaces.system, name)
    options = options_of(LeaseOptions, chosen, key=key, identity=process.identity)
    elector = Elector(
        context.transport,
        options,
        clock=loop_time,
        now=process.now,
        rng=process.rng,
        meter=context.registry,
    )
    elector.gives_back = False
    return elector
