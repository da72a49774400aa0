"""The workers of functions: the product's worker beside a simulated function, one in each Pod.

A worker starts when its Pod is ready, drains when its Pod has to terminate, and ends with its Pod.
"""

import asyncio
import json
from collections.abc import Callable
from contextlib import suppress
from random import Random
from typing import Any

import attrs
import msgspec

from gpuruntime.bus.connection import Connection
from gpuruntime.bus.credentials import ConnectionOptions
from gpuruntime.bus.messages import Invocation
from gpuruntime.models.kinds import labels
from gpuruntime.models.kinds.functions import Serverless
from gpuruntime.models.kinds.invocations import FailureClass
from gpuruntime.models.kubernetes.metadata import Key
from gpuruntime.models.kubernetes.pods import Pod
from gpuruntime.worker.options import WorkerOptions
from gpuruntime.worker.outcomes import Answer, Failure, Outcome
from gpuruntime.worker.worker import Worker
from tests.options import configured
from tests.proofs.broker_conformance.server import Server
from tests.proofs.simulation.checks.invocations import NAMES, Invocations
from tests.proofs.simulation.event_log import EventLog
from tests.proofs.simulation.faults.broker_wire import BROKER_URL, ActiveBrokerFaults, BrokerWire
from tests.proofs.simulation.faults.kinds import ALL_WORKERS, BrokerFaultKind, PlannedFault
from tests.proofs.simulation.virtual_time import true_time


class Function:
    """The user's container, which does what the payload says."""

    def __init__(self, worker: str, declarer: str, invocations: Invocations) -> None:
        self._worker = worker
        self._declarer = declarer
        self._invocations = invocations

    async def problem(self) -> str:
        return ""

    async def call(
        self, invocation: Invocation, *, attempt: int, within_seconds: float
    ) -> Outcome:
        self._invocations.start(invocation, attempt, self._worker, declarer=self._declarer)
        asked: Any = json.loads(bytes(invocation.payload))
        try:
            async with asyncio.timeout(within_seconds):
                await asyncio.sleep(asked["seconds"])
        except TimeoutError:
            return Failure(cause=FailureClass.FRAMEWORK_TIMEOUT, error="too slow")
        if asked["isRefused"] or attempt <= asked["fails"]:
            return Failure(
                cause=FailureClass.FRAMEWORK_ERROR,
                error="as the payload says",
                is_final=asked["isRefused"],
            )
        asked = {"call": invocation.invocationID, "attempt": attempt}
        body = json.dumps(asked).encode()
        return Answer(body=msgspec.Raw(body))


@attrs.frozen(kw_only=True)
class Workers:
    seed: int
    server: Server
    event_log: EventLog
    invocations: Invocations
    # Returns the function that a unit serves, or None if the unit is not a worker.
    function_of: Callable[[str], Serverless | None]
    active_faults: ActiveBrokerFaults = attrs.field(factory=ActiveBrokerFaults)
    _running: "dict[str, _WorkerProcess]" = attrs.field(factory=dict)
    _tasks: list[asyncio.TaskGroup] = attrs.field(factory=list)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            self._tasks.append(tasks)
            await asyncio.Event().wait()

    def on_pod_change(self, key: Key, _: Pod | None, pod: Pod | None) -> None:
        """Start, drain or end the Pod's worker; called for every change of a Pod, in its step."""
        running = self._running.get(key.name)
        if pod is None:
            if running:
                running.kill()
                del self._running[key.name]
            return
        if running is None and pod.is_ready:
            self._begin(key.name, pod.metadata.labels.get(labels.UNIT, ""))
        elif running is not None and pod.metadata.deletionTimestamp is not None:
            running.drain_and_end()

    def inject(self, fault: PlannedFault) -> None:
        """Begin a fault whose time has come."""
        self.event_log.write(ALL_WORKERS, f"!{fault.kind}")
        if fault.kind is not BrokerFaultKind.WORKER_KILLED:
            self.active_faults.begin(fault)
        elif self._running:
            next(iter(self._running.values())).crash(fault.seconds)

    def _begin(self, pod: str, unit: str) -> None:
        function = self.function_of(unit)
        if function is None:
            return
        made = self._running[pod] = _WorkerProcess(self, pod, unit, function)
        self._tasks[0].create_task(made.run(), name=f"worker {pod}")


class _WorkerProcess:
    def __init__(self, workers: Workers, pod: str, unit: str, function: Serverless) -> None:
        self._workers = workers
        self._pod = pod
        self._unit = unit
        self._function = function
        self._ending = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._wire: BrokerWire | None = None
        self._number = 0
        # The pause before the next restart, or None if the worker is not restarted.
        self._pause_seconds: float | None = None

    async def run(self) -> None:
        while True:
            await self._run_once()
            if self._pause_seconds is None or self._ending.is_set():
                return
            await asyncio.sleep(self._pause_seconds)

    async def _run_once(self) -> None:
        self._number += 1
        self._pause_seconds = None
        workers, name = self._workers, f"{self._pod}.{self._number}"
        seed_text = f"{workers.seed} {name}"
        workers.event_log.write(self._unit, "worker starts")
        self._wire = wire = BrokerWire(
            name,
            workers.server,
            workers.event_log,
            rng=Random(f"{seed_text} wire"),
            active_faults=workers.active_faults,
        )
        async with asyncio.TaskGroup() as tasks:
            self._task = tasks.create_task(self._run(wire, Random(seed_text)), name=self._unit)
        wire.cut()
        workers.event_log.write(self._unit, "worker ended")

    def crash(self, seconds: float) -> None:
        """Crash the worker; its container restarts in the same Pod."""
        self._pause_seconds = seconds
        self._cut()

    def drain_and_end(self) -> None:
        """Drain the worker, as its Pod's hook does before the signal."""
        self._ending.set()

    def kill(self) -> None:
        """End the worker for good, together with its Pod."""
        self._pause_seconds = None
        self._ending.set()
        self._cut()

    def _cut(self) -> None:
        """End the task. It is cut off first: nothing it does at its end reaches the broker."""
        if self._wire and self._task:
            self._wire.cut()
            self._task.cancel()

    async def _run(self, wire: BrokerWire, rng: Random) -> None:
        function, invocations = self._function, self._workers.invocations
        options = configured(
            ConnectionOptions,
            url=BROKER_URL,
            name=self._pod,
            inbox_prefix=NAMES.inbox(function.requestID),
        )
        connection = Connection(options, rng=rng, opener=wire.opener())
        declarer = function.workerOf.uid if function.workerOf else ""
        worker = Worker(
            connection,
            Function(self._unit, declarer, invocations),
            configured(
                WorkerOptions,
                function=function.requestID,
                name=self._unit,
                declarer=declarer,
                concurrency=function.concurrency,
                attempt_seconds=function.timeoutSeconds,
                max_attempts=function.maxAttempts,
            ),
            names=NAMES,
            now=true_time,
            rng=rng,
        )
        async with asyncio.TaskGroup() as tasks:
            running = [
                tasks.create_task(connection.run(), name="broker"),
                tasks.create_task(worker.run(), name="worker"),
            ]
            await self._ending.wait()
            with suppress(TimeoutError):
                await worker.drain()
            for task in running:
                task.cancel()
