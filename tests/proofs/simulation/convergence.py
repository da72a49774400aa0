"""The end of a run: processes become idle, the state is checked, a new leader writes nothing."""

import asyncio
from collections.abc import Callable
from typing import Final

from gpuruntime.models.kinds import provenance
from gpuruntime.models.kinds.pools import Refill, StockPool
from gpuruntime.models.kinds.units import GPUUnit
from gpuruntime.models.kubernetes.metadata import Key
from gpuruntime.models.kubernetes.workloads import DEPLOYMENTS
from tests.proofs.simulation.checks.cluster_observer import ClusterObserver
from tests.proofs.simulation.checks.invocations import Invocations
from tests.proofs.simulation.checks.stale_status import stale_statuses, statuses_of
from tests.proofs.simulation.faults.kinds import ACTIVATORS, MANAGERS, FaultKind, PlannedFault
from tests.proofs.simulation.faults.wire import Wire
from tests.proofs.simulation.processes import Fleet

# After the last fault: the deadline of a request, the grace of a claim, and the longest back-off.
CONVERGENCE_SECONDS: Final = 600.0
QUIET_SECONDS: Final = 60.0
RESTART_SECONDS: Final = 2.0


class ConvergenceCheck:
    def __init__(
        self,
        fleet: Fleet,
        observer: ClusterObserver,
        invocations: Invocations,
        breach: Callable[[str], None],
    ) -> None:
        self._fleet = fleet
        self._observer = observer
        self._invocations = invocations
        self._breach = breach

    async def run(self) -> None:
        if not await self._becomes_idle():
            self._breach(f"not idle within {CONVERGENCE_SECONDS:g} s after the stories")
            return
        for what in self._fleet.unseen(self._fleet.server.store.version):
            self._breach(f"at the end {what}")
        self._check()
        for group in (MANAGERS, ACTIVATORS) if self._fleet.broker else (MANAGERS,):
            written = statuses_of(self._observer.continuous_audit)
            await self._change_leader(group)
            for what in stale_statuses(written, statuses_of(self._observer.continuous_audit)):
                self._breach(what)

    async def _becomes_idle(self) -> bool:
        """Wait for two minutes without a write or list; return False after CONVERGENCE_SECONDS."""
        loop = asyncio.get_running_loop()
        until = loop.time() + CONVERGENCE_SECONDS
        before, since = self._request_counts(), loop.time()
        while loop.time() < until:
            await asyncio.sleep(1.0)
            now = self._request_counts()
            if now != before or self._observer.last_write > since:
                before, since = now, loop.time()
            if loop.time() - since >= 2 * QUIET_SECONDS:
                return True
        return False

    def _request_counts(self) -> list[tuple[int, int]]:
        return [(each.writes, each.lists) for each in self._wires().values()]

    def _wires(self) -> dict[str, Wire]:
        return {name: each.wire for name, each in self._fleet.supervisors.items() if each.wire}

    async def _change_leader(self, group: tuple[str, ...]) -> None:
        """Stop the leader and check that its successor, which reads everything, writes nothing."""
        leader = self._fleet.leader_of(group)
        if leader is None:
            self._breach(f"no leader in {group}")
            return
        led, written = leader.wire, {wire: wire.writes for wire in self._wires().values()}
        now = asyncio.get_running_loop().time()
        stop = PlannedFault(
            at=now, process=leader.name, kind=FaultKind.STOP, seconds=RESTART_SECONDS
        )
        leader.inject(stop)
        await asyncio.sleep(QUIET_SECONDS)
        follower = self._fleet.leader_of(group)
        if follower is None or follower.wire is led:
            self._breach(f"no new leader in {group}")
        for name, wire in self._wires().items():
            if wire.writes > written.get(wire, 0):
                self._breach(f"{name} writes although all processes were idle")

    def _check(self) -> None:
        self._observer.continuous_audit.check_end()
        if self._fleet.broker:
            self._invocations.check_end(set(self._observer.functions()))
        for key, pool in self._observer.pools.items():
            self._check_pool(key, pool)
        held = self._observer.continuous_audit.held(DEPLOYMENTS.kind)
        changed = {
            owner.uid
            for each in held
            if each.metadata.generation > 1 and (owner := each.metadata.controller_owner)
        }
        for key, unit in (*self._observer.units.items(), *self._observer.stock.items()):
            is_unchanged = unit.metadata.generation == 1 and unit.metadata.uid not in changed
            self._check_timeline(key, unit, is_unchanged)

    def _check_timeline(self, key: Key, unit: GPUUnit, is_unchanged: bool) -> None:
        """Check that a unit which was ready has all moments of its start.

        If it or its Deployment was changed, its first Pod may be gone that no manager saw.
        """
        moments = unit.status.timeline
        is_complete = moments.scheduledAt and moments.startedAt
        if is_unchanged and moments.readyAt and not is_complete:
            self._breach(f"unit {key} was ready, and its timeline has a gap: {moments}")

    def _check_pool(self, key: Key, pool: StockPool) -> None:
        made = self._observer.ordinals(pool.metadata.uid)
        living = [
            each for each in self._observer.stock if each.name.rpartition("-")[0] == key.name
        ]
        if pool.spec.refill == Refill.NEVER and len(made) != pool.spec.replicas:
            self._breach(f"pool {key}: created {len(made)} of {pool.spec.replicas} units")
        if pool.spec.refill == Refill.ALWAYS and pool.status.available != pool.spec.replicas:
            self._breach(
                f"pool {key}: {pool.status.available} units available, not {pool.spec.replicas}"
            )
        stale = [
            each
            for each in self._observer.stock.values()
            if each.metadata.name.rpartition("-")[0] == key.name
            and not provenance.is_claimed(each)
            and (each.spec.image, each.spec.template) != (pool.spec.image, pool.spec.template)
        ]
        if stale:
            self._breach(f"pool {key}: {len(stale)} units do not follow its image and template")
        status = pool.status
        if status.seeded - status.skipped - status.consumed != len(living):
            self._breach(f"pool {key}: its count differs from the existing stock")
        if status.created != len(made):
            self._breach(f"pool {key}: counts {status.created} units made, not {len(made)}")
        if pool.status.claimed:
            self._breach(f"pool {key}: {pool.status.claimed} claims have not ended")
