"""A run: a cluster, processes, callers and faults on one event loop, and its outcome."""

import asyncio
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import attrs
import structlog

from gpuruntime.embedded.cluster import ClusterOptions, EmbeddedCluster
from gpuruntime.embedded.nodes.seed_objects import NodeOptions
from gpuruntime.kube.client import Client
from gpuruntime.models.encoding import codec
from gpuruntime.models.kinds.pools import Refill
from gpuruntime.roles.dev.installation import install
from tests.proofs.broker_conformance.server import Server as Broker
from tests.proofs.simulation.checks.cluster_observer import ClusterObserver, ObjectCounts
from tests.proofs.simulation.checks.coverage import WriteCoverage
from tests.proofs.simulation.checks.invocations import Invocations
from tests.proofs.simulation.convergence import CONVERGENCE_SECONDS, ConvergenceCheck
from tests.proofs.simulation.event_log import EventLog
from tests.proofs.simulation.faults.injector import FaultInjector
from tests.proofs.simulation.faults.kinds import (
    APIS,
    FOR_FUNCTIONS,
    LAST_SECOND,
    PROCESSES,
    PlannedFault,
)
from tests.proofs.simulation.processes import SETTINGS, Fleet
from tests.proofs.simulation.stories.script import SCARCE, script_of
from tests.proofs.simulation.stories.units import STORY, StoryRunner
from tests.proofs.simulation.virtual_time import run_virtually, true_time
from tests.proofs.simulation.workers import Workers

FAULTS_END: Final = LAST_SECOND + 10.0
# A silent watch is abandoned after 75 s, and a failed one is retried after a pause.
CATCH_UP_SECONDS: Final = 130.0
MOST_BREACHES: Final = 20
NODES: Final = NodeOptions(count=5, gpus=8)
# Log events that show a defect of the product, whatever the faults around them.
FATAL_LINES: Final = frozenset(
    {
        "reconcile failed",
        "request failed by a fault of ours",
        "store diverged from the server",
        # The manager audits its lagging caches; such an audit must never report a false breach.
        "invariant broken",
        "crashed",
    }
)


@attrs.frozen(kw_only=True)
class Outcome:
    seed: int
    plan: tuple[PlannedFault, ...]
    breaches: tuple[str, ...]
    digest: str
    events: int
    seconds: float
    state: dict[str, Any]
    object_counts: dict[tuple[str, str], ObjectCounts]
    results: dict[str, list[str]]
    coverage: WriteCoverage


def simulate(
    seed: int, plan: tuple[PlannedFault, ...], print_line: Callable[[str], None] | None = None
) -> Outcome:
    async def run() -> Outcome:
        return await _Run(seed, plan, print_line, lines).run()

    with _captured_log() as lines:
        return run_virtually(run())


class _Run:
    def __init__(
        self,
        seed: int,
        plan: tuple[PlannedFault, ...],
        print_line: Callable[[str], None] | None,
        lines: "_LogCapture",
    ) -> None:
        self._seed = seed
        self._plan = plan
        self._script = script_of(seed)
        self._event_log = EventLog(print_line)
        self._lines = lines
        self._breaches: list[str] = []
        self._coverage = WriteCoverage()
        self._cluster = EmbeddedCluster(
            now=true_time, options=ClusterOptions(seed=seed, nodes=NODES)
        )

    async def run(self) -> Outcome:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(self._on_unhandled_error)
        self._lines.on_line = self._on_line
        async with asyncio.TaskGroup() as tasks:
            cluster = tasks.create_task(self._cluster.run(), name="cluster")
            await self._cluster.ready.wait()
            await install(Client(self._cluster.transport), SETTINGS)
            observer = ClusterObserver(
                self._cluster.server, self._event_log, self._breach, loop.time
            )
            broker = Broker(now=true_time)
            invocations = Invocations(broker, self._event_log, self._breach)
            fleet = Fleet(
                seed=self._seed,
                server=self._cluster.server,
                event_log=self._event_log,
                breach=self._breach,
                coverage=self._coverage,
                broker=broker if self._script.functions else None,
            )
            workers = Workers(
                seed=self._seed,
                server=broker,
                event_log=self._event_log,
                invocations=invocations,
                function_of=observer.function_of,
            )
            observer.pod_listeners.append(workers.on_pod_change)
            runner = StoryRunner(
                seed=self._seed,
                replicas={name: fleet.supervisor(name) for name in APIS},
                kubectl=Client(self._cluster.transport),
                observer=observer,
                invocations=invocations,
                event_log=self._event_log,
                breach=self._breach,
            )
            names = (*PROCESSES, *FOR_FUNCTIONS) if self._script.functions else PROCESSES
            supervisors = [
                tasks.create_task(fleet.supervisor(name).run(), name=name) for name in names
            ]
            supervisors.append(tasks.create_task(workers.run(), name="workers"))
            injector = FaultInjector(fleet, workers, broker)
            for fault in self._plan:
                loop.call_at(fault.at, injector.inject, fault)
            await self._run_stories(runner, fleet, injector)
            await ConvergenceCheck(fleet, observer, invocations, self._breach).run()
            for task in (*supervisors, cluster):
                task.cancel()
        return Outcome(
            seed=self._seed,
            plan=self._plan,
            breaches=tuple(self._breaches),
            digest=self._event_log.digest,
            events=self._event_log.length,
            seconds=loop.time(),
            state=end_state(observer),
            object_counts=dict(observer.object_counts),
            results=runner.results,
            coverage=self._coverage,
        )

    async def _run_stories(
        self, runner: StoryRunner, fleet: Fleet, injector: FaultInjector
    ) -> None:
        """Run the stories during the faults and after them."""
        async with asyncio.TaskGroup() as tasks:
            stories = tasks.create_task(runner.run(self._script), name="stories")
            await asyncio.sleep(FAULTS_END - asyncio.get_running_loop().time())
            injector.end_faults()
            self._event_log.write("world", "faults end")
            version = fleet.server.store.version
            await asyncio.sleep(CATCH_UP_SECONDS)
            for what in fleet.unseen(version):
                self._breach(f"{CATCH_UP_SECONDS:g} s after the faults {what}")
            done, _ = await asyncio.wait([stories], timeout=CONVERGENCE_SECONDS)
            if not done:
                left = sorted(
                    task.get_name()
                    for task in asyncio.all_tasks()
                    if task.get_name().startswith(STORY)
                )
                self._breach(
                    f"stories not ended within {CONVERGENCE_SECONDS:g} s after the faults: {left}"
                )
                stories.cancel()

    def _breach(self, what: str) -> None:
        self._event_log.write("BREACH", what)
        if len(self._breaches) < MOST_BREACHES and what not in self._breaches:
            self._breaches.append(what)

    def _on_line(self, line: dict[str, Any]) -> None:
        text = " ".join(
            f"{name}={value}"
            for name, value in sorted(line.items())
            if name not in ("event", "exc_info")
        )
        self._event_log.write("log", f"{line['event']} {text}")
        if line["event"] in FATAL_LINES:
            self._breach(f"logged: {line['event']} {text} {_traceback_of(line.get('exc_info'))}")

    def _on_unhandled_error(self, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        self._breach(f"unhandled exception: {context.get('message')} {context.get('exception')!r}")


def _traceback_of(error: object) -> str:
    """Return the traceback of this error, or of the error that is being handled."""
    raised = error if isinstance(error, BaseException) else sys.exc_info()[1]
    return "".join(traceback.format_exception(raised)) if raised else ""


class _LogCapture:
    def __init__(self) -> None:
        self.on_line: Callable[[dict[str, Any]], None] = lambda _: None

    def process(self, _logger: Any, _method: str, line: Any) -> Any:
        self.on_line(line)
        raise structlog.DropEvent


@contextmanager
def _captured_log() -> Iterator[_LogCapture]:
    lines, before = _LogCapture(), structlog.get_config()
    structlog.configure(processors=[structlog.contextvars.merge_contextvars, lines.process])
    try:
        yield lines
    finally:
        structlog.configure(**before)


def end_state(observer: ClusterObserver) -> dict[str, Any]:
    """Return the final objects, without the values that differ from run to run."""
    units = {
        f"unit {key.name}": (codec.encode(codec.to_json(unit.spec)).decode(), unit.status.phase)
        for key, unit in observer.units.items()
    }
    storages: dict[str, Any] = {
        f"storage {key.name}": (storage.spec, storage.status.phase, storage.status.mountedBy)
        for key, storage in observer.storages.items()
    }
    pools: dict[str, tuple[object, ...]] = {}
    for key, pool in observer.pools.items():
        status = pool.status
        if pool.spec.refill == Refill.NEVER:
            used = status.consumed + observer.released_count(key.name)
            is_scarce = pool.spec.specName == SCARCE
            pools[f"pool {key.name}"] = (pool.spec.replicas, status.seeded, not is_scarce and used)
        else:
            pools[f"pool {key.name}"] = (pool.spec.replicas, status.available, status.phase)
    return {**units, **storages, **pools}
