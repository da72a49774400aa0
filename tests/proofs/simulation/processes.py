"""The processes of a run: whole roles that end and restart, each with connections of its own."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from random import Random
from typing import Any, Final, TypeAlias

import attrs
from aiohttp import web

from gpuruntime.embedded.apiserver.server import Server
from gpuruntime.informer.informer import Informer
from gpuruntime.kube.transport import Request
from gpuruntime.roles.activator import ActivatorParts, activator_role
from gpuruntime.roles.api import ApiParts, api_role
from gpuruntime.roles.lifecycle import ExitCode, Lifecycle
from gpuruntime.roles.manager import ManagerParts, manager_role
from gpuruntime.roles.process import Process
from gpuruntime.roles.results import ResultsParts, results_role
from gpuruntime.roles.role import Drain, RoleRunner
from gpuruntime.settings.schema import LeaderElectionSettings, Settings
from gpuruntime.settings.serverless import NatsSettings
from gpuruntime.telemetry.metrics import Registry
from tests.faults import WRITES
from tests.proofs.broker_conformance.server import Server as Broker
from tests.proofs.simulation.checks.cache_checks import CacheChecks, unseen
from tests.proofs.simulation.checks.coverage import WriteCoverage
from tests.proofs.simulation.event_log import EventLog
from tests.proofs.simulation.faults.active_faults import LEASES, ActiveFaults
from tests.proofs.simulation.faults.broker_wire import BROKER_URL, ActiveBrokerFaults, BrokerWire
from tests.proofs.simulation.faults.kinds import (
    ACTIVATORS,
    LEADER,
    LEADING_ACTIVATOR,
    MANAGERS,
    RESULTS,
    STANDBY,
    WATCH_KINDS,
    BrokerFaultKind,
    FaultKind,
    PlannedFault,
)
from tests.proofs.simulation.faults.wire import Wire
from tests.proofs.simulation.in_process_http import Answer, handle
from tests.proofs.simulation.virtual_time import true_time

SETTINGS: Final = Settings(leaderElection=LeaderElectionSettings(enabled=True))
WITH_BROKER: Final = attrs.evolve(SETTINGS, nats=NatsSettings(url=BROKER_URL))
AnyParts: TypeAlias = ManagerParts | ApiParts | ActivatorParts | ResultsParts
AnyRole: TypeAlias = (
    RoleRunner[ManagerParts]
    | RoleRunner[ApiParts]
    | RoleRunner[ActivatorParts]
    | RoleRunner[ResultsParts]
)
GRACE_SECONDS: Final = 10.0
# A process that ended by itself restarts soon, as in a Deployment.
RESTART_SECONDS: Final = 2.0
EXPECTED_ENDS: Final = (ExitCode.DONE, ExitCode.LOST_LEADERSHIP)


class NoAnswerError(Exception):
    """The connection was refused, or broke before the answer came."""


@asynccontextmanager
async def _role_context(
    settings: Settings,  # noqa: ARG001  # not read here
    registry: Registry,  # noqa: ARG001  # not read here
    *,
    not_ready: Callable[[], str],  # noqa: ARG001  # not read here
    facts: Callable[[], Mapping[str, object]],  # noqa: ARG001  # not read here
    drain: Drain | None,  # noqa: ARG001  # not read here
) -> AsyncIterator[asyncio.TaskGroup]:
    async with asyncio.TaskGroup() as tasks:
        yield tasks


@attrs.define(kw_only=True)
class Fleet:
    """All processes of a run, what they share, and checks across them."""

    seed: int
    server: Server
    event_log: EventLog
    breach: Callable[[str], None]
    coverage: WriteCoverage
    # None unless the script has a function.
    broker: Broker | None = None
    supervisors: "dict[str, Supervisor]" = attrs.field(factory=dict)

    def supervisor(self, name: str) -> "Supervisor":
        return self.supervisors.setdefault(name, Supervisor(name, self))

    def target_of(self, process: str) -> "Supervisor | None":
        """Return the process of this name, or the current holder of this role, if there is one."""
        if process == LEADING_ACTIVATOR:
            return self.leader_of(ACTIVATORS)
        if process not in (LEADER, STANDBY):
            return self.supervisor(process)
        leader = self.leader
        if process == LEADER or leader is None:
            return leader
        return next(self.supervisor(name) for name in MANAGERS if name != leader.name)

    @property
    def leader(self) -> "Supervisor | None":
        """Return the leading manager, if there is one."""
        return self.leader_of(MANAGERS)

    def leader_of(self, group: tuple[str, ...]) -> "Supervisor | None":
        supervisors = (self.supervisors[name] for name in group if name in self.supervisors)
        return next((each for each in supervisors if each.is_leading), None)

    def inject(self, fault: PlannedFault) -> None:
        supervisor = self.target_of(fault.process)
        if supervisor:
            supervisor.inject(fault)

    def unseen(self, version: int) -> Iterator[str]:
        """Yield the changes up to this version that a running process does not have cached."""
        for name, supervisor in self.supervisors.items():
            for informer in supervisor.informers:
                if informer.synced.is_set():
                    yield from (
                        f"{name} {what}" for what in unseen(informer, self.server, version)
                    )

    def inspect(self, request: Request) -> None:
        """Check at each write that at most one manager and one activator believe to lead."""
        if request.method not in WRITES or LEASES in request.path:
            return
        leading = {name for name, each in self.supervisors.items() if each.is_leading}
        for group in (MANAGERS, ACTIVATORS):
            leaders = [name for name in group if name in leading]
            if len(leaders) > 1:
                self.breach(f"two leaders at once: {' and '.join(leaders)}")


class Supervisor:
    """Runs one process and restarts it whenever it has ended."""

    def __init__(self, name: str, fleet: Fleet) -> None:
        self.name = name
        self.active_faults = ActiveFaults()
        self.active_broker_faults = ActiveBrokerFaults()
        self.wire: Wire | None = None
        self.broker_wire: BrokerWire | None = None
        self._fleet = fleet
        self._clock_ahead = timedelta()
        self._number = 0
        self._role: AnyRole | None = None
        self._lifecycle: Lifecycle | None = None
        self._running: asyncio.Task[ExitCode] | None = None
        self._pause = RESTART_SECONDS
        self._app: web.Application | None = None
        self._requests: asyncio.TaskGroup | None = None
        self._cache_checks = CacheChecks(name, fleet.server, fleet.breach)

    @property
    def is_leading(self) -> bool:
        parts, wire = self._parts, self.wire
        is_alive = wire is not None and not wire.is_cut
        return (
            is_alive
            and isinstance(parts, ManagerParts | ActivatorParts)
            and parts.election.is_lease_held
        )

    @property
    def informers(self) -> tuple[Informer[Any], ...]:
        parts = self._parts
        if isinstance(parts, ApiParts | ActivatorParts):
            return tuple(parts.mirrors.informers.values())
        return parts.reconcilers.informers.all() if isinstance(parts, ManagerParts) else ()

    @property
    def _parts(self) -> AnyParts | None:
        return self._role.parts if self._role else None

    async def run(self) -> None:
        while True:
            self._pause = RESTART_SECONDS
            code = await self._run_once()
            self._role = self._lifecycle = self._running = None
            if code not in EXPECTED_ENDS:
                self._fleet.breach(f"{self.name} ended with {code!r}")
            await asyncio.sleep(self._pause)

    def inject(self, fault: PlannedFault) -> None:
        """Begin a fault whose time has come."""
        self._fleet.event_log.write(self.name, f"!{fault.kind}")
        if isinstance(fault.kind, BrokerFaultKind):
            self.active_broker_faults.begin(fault)
            return
        if fault.target is not None:
            self.active_faults.armed.append(fault)
            return
        until = asyncio.get_running_loop().time() + fault.seconds
        if fault.kind in WATCH_KINDS and self.wire:
            self._disturb_watches(self.wire, fault.kind, until)
        match fault.kind:
            case FaultKind.PARTITION:
                self.active_faults.partitioned_until = until
            case FaultKind.LEASE_OUTAGE:
                self.active_faults.lease_lost_until = until
            case FaultKind.OLD_LISTS:
                self.active_faults.stale_lists.keep(self._fleet.server)
            case FaultKind.CLOCK_JUMP:
                self._clock_ahead = timedelta(seconds=fault.seconds)
            case FaultKind.STOP:
                self._stop(fault)
            case FaultKind.KILL:
                self._crash(fault)
            case _:
                pass

    def end_faults(self) -> None:
        """End all faults; a watch that has fallen silent stays silent."""
        self.active_faults.clear()
        self.active_broker_faults.clear()
        self._clock_ahead = timedelta()

    async def call(self, method: str, path: str, body: object = None) -> Answer:
        """Call the process's API; raise NoAnswerError if the process is down or ends meanwhile."""
        if self._app is None or self._requests is None:
            raise NoAnswerError(f"{self.name} is down")
        answered: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        work = self._answer(self._app, method, path, body, answered)
        try:
            self._requests.create_task(work, name=f"{method} {path}")
        except RuntimeError as error:
            work.close()
            raise NoAnswerError(f"{self.name} is ending") from error
        await asyncio.wait([answered])
        if answered.cancelled():
            raise NoAnswerError(f"{self.name} has ended")
        return answered.result()

    async def _answer(
        self,
        app: web.Application,
        method: str,
        path: str,
        body: object,
        answered: asyncio.Future[Answer],
    ) -> None:
        try:
            answered.set_result(await handle(app, method, path, body))
        finally:
            answered.cancel()

    async def _run_once(self) -> ExitCode:
        self._number += 1
        name, fleet = self.name, self._fleet
        self._cache_checks = CacheChecks(name, fleet.server, fleet.breach)
        seed_text = f"{fleet.seed} {name} {self._number}"
        self.wire = Wire(
            name,
            fleet.server,
            fleet.event_log,
            rng=Random(f"{seed_text} wire"),
            active_faults=self.active_faults,
            crash=self._crash,
            inspect=self._inspect,
            coverage=fleet.coverage,
        )
        process = Process(
            identity=f"{name}.{self._number}",
            now=self._now,
            rng=Random(seed_text),
            role_context=_role_context,
            serving=self._serving,
        )
        if fleet.broker is not None:
            self.broker_wire = BrokerWire(
                process.identity,
                fleet.broker,
                fleet.event_log,
                rng=Random(f"{seed_text} broker"),
                active_faults=self.active_broker_faults,
            )
            process = attrs.evolve(process, opener=self.broker_wire.opener())
        self._role = self._make_role(process, self.wire)
        self._lifecycle = Lifecycle(self._role, grace_seconds=GRACE_SECONDS)
        fleet.event_log.write(name, "starts")
        async with asyncio.TaskGroup() as tasks:
            self._running = tasks.create_task(self._lifecycle._run(), name=name)
            try:
                await asyncio.wait([self._running])
            finally:
                self._cut()
        code = ExitCode.DONE if self._running.cancelled() else self._running.result()
        fleet.event_log.write(name, "ended")
        return code

    def _make_role(self, process: Process, wire: Wire) -> AnyRole:
        settings = WITH_BROKER if self._fleet.broker else SETTINGS
        if self.name in RESULTS:
            return results_role(settings, process=process)
        if self.name in ACTIVATORS:
            return activator_role(settings, transport=wire, process=process)
        if self.name in MANAGERS:
            return manager_role(settings, transport=wire, process=process)
        return api_role(settings, transport=wire, process=process)

    def _cut(self) -> None:
        if self.wire:
            self.wire.cut()
        if self.broker_wire:
            self.broker_wire.cut()

    def _inspect(self, request: Request) -> None:
        self._cache_checks.follow(self.informers)
        if self.is_leading:
            self._cache_checks.lead(self._needed(), request)
        self._fleet.inspect(request)

    def _needed(self) -> tuple[Informer[Any], ...]:
        """Return the informers that have to be current before the process leads."""
        parts = self._parts
        if isinstance(parts, ActivatorParts):
            return tuple(parts.mirrors.informers[name] for name in ("units", "stock"))
        assert isinstance(parts, ManagerParts)
        return parts.reconcilers.informers.ours()

    @asynccontextmanager
    async def _serving(
        self, app: web.Application, _settings: Settings, _head_bytes: int
    ) -> AsyncIterator[str]:
        app.freeze()
        async with asyncio.TaskGroup() as requests:
            self._app, self._requests = app, requests
            try:
                yield self.name
            finally:
                self._app = self._requests = None

    def _disturb_watches(self, wire: Wire, kind: FaultKind, until: float) -> None:
        if kind is FaultKind.HISTORY_LOST:
            self._fleet.server.compact()
        if kind is FaultKind.WATCHES_REFUSED:
            self.active_faults.watches_refused_until = until
        wire.disturb_watches(kind, until)

    def _stop(self, fault: PlannedFault) -> None:
        """Stop the process as SIGTERM does, so that it drains."""
        self._pause = fault.seconds
        if self._lifecycle:
            self._lifecycle.stop()

    def _crash(self, fault: PlannedFault) -> None:
        """Crash the process. It is cut off first: nothing it does later reaches the server."""
        if self.wire is None or self._running is None:
            return
        self._pause = fault.seconds
        self._cut()
        self._running.cancel()

    def _now(self) -> datetime:
        return true_time() + self._clock_ahead
