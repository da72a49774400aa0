"""The activator gives functions workers while they are called, and takes them back later.

Each function has its own key, so that its cold start or failure delays no other function. Only the
leader runs this.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, suppress
from typing import Final, TypeAlias

import attrs
import structlog

from gpuruntime.bus.errors import BusError
from gpuruntime.bus.session import Message
from gpuruntime.concurrency.clock import loop_time
from gpuruntime.concurrency.leadership import Leadership
from gpuruntime.concurrency.waiting import is_set_within
from gpuruntime.controller.controller import Controller
from gpuruntime.kube.events import EventRecorder
from gpuruntime.operations.context import OperationContext
from gpuruntime.operations.lookup.caches import FUNCTION
from gpuruntime.operations.units import Units
from gpuruntime.serverless.broker import BrokerLink
from gpuruntime.serverless.orphans import Orphans, Takeovers, UndeclaredFunctions
from gpuruntime.serverless.scaling.actions import Actions
from gpuruntime.serverless.scaling.consumers import Consumers
from gpuruntime.serverless.scaling.heartbeats import Heartbeats, uids_in
from gpuruntime.serverless.scaling.history import Histories
from gpuruntime.serverless.scaling.observation import Observer
from gpuruntime.serverless.scaling.queue_depths import DepthPoller, Depths
from gpuruntime.serverless.scaling.reconciler import Scaler
from gpuruntime.serverless.scaling.report import COMPONENT, Reporter
from gpuruntime.serverless.scaling.triggers import FunctionTriggers
from gpuruntime.serverless.scaling.worker_units import WorkerUnits
from gpuruntime.serverless.scaling.workers import functions_in
from gpuruntime.workqueue.queue import Lane, WorkQueue

log = structlog.get_logger()

# Label values of a metric to its value.
Rows: TypeAlias = Mapping[tuple[str, ...], float]

# Each of them waits for the cluster or the broker most of its time.
AT_ONCE: Final = 64
SURVEY_SECONDS: Final = 10.0
MEASURE_SECONDS: Final = 5.0
DEAD_LETTERS_SECONDS: Final = 30.0
# How long a stop may wait for the last Events to be sent.
SETTLE_SECONDS: Final = 2.0


@attrs.frozen(kw_only=True, slots=True)
class ActivatorOptions:
    """`ack_wait_seconds` and `retention_seconds` are those of the workers.

    If no unit declares a function for `orphan_seconds`, the cluster itself is read to confirm it.
    """

    ack_wait_seconds: float
    retention_seconds: float
    orphan_seconds: float = 15.0


def recorder_of(means: OperationContext) -> EventRecorder:
    """Return the recorder of Events, which sends while the activator runs."""
    return EventRecorder(
        means.client, component=COMPONENT, now=means.now, rng=means.rng, meter=means.meter
    )


class Activator:
    """Create it before the informers of its caches run. `catch_up` updates the units' cache."""

    def __init__(
        self,
        means: OperationContext,
        units: Units,
        queue: BrokerLink,
        options: ActivatorOptions,
        *,
        recorder: EventRecorder,
        catch_up: Callable[[], Awaitable[None]],
    ) -> None:
        self.recorder = recorder
        caches, meter, names = means.caches, means.meter, queue.names
        self._queue = queue
        self._units = caches.units
        self._meter = meter
        self._now = means.now
        self._keys: WorkQueue[str] = WorkQueue("function", meter=meter)
        namespace = means.options.namespaces.instance
        self._beats = Heartbeats(names, uids_in(caches.units, namespace))
        self._depths = Depths(queue.jetstream, names, queue.records)
        self._consumers = Consumers(
            queue.jetstream, names, ack_wait_seconds=options.ack_wait_seconds
        )
        self.depth_poller = DepthPoller(
            self._depths, tell=self._report_depth, report_all=self._wake_all, meter=meter
        )
        self.receiving_since: float | None = None
        orphans = Orphans(
            queue.jetstream,
            queue.records,
            names,
            retention_seconds=options.retention_seconds,
            now=means.now,
            meter=meter,
        )
        self.histories = Histories()
        self.scaler = self._make_scaler(
            means, units, orphans, catch_up, grace_seconds=options.orphan_seconds
        )
        self.leadership = Leadership()
        self.triggers = FunctionTriggers(
            self._keys,
            self.leadership,
            units=caches.units,
            stock=caches.stock,
            namespace=namespace,
            depth_poller=self.depth_poller,
            beats=self._beats,
            histories=self.histories,
        )
        self.controller = Controller(
            "function", self._keys, self.scaler.reconcile, workers=AT_ONCE, meter=meter
        )
        self._survey_due = asyncio.Event()

    def function_depths(self) -> Rows:
        histories = self.histories.declared
        return {(name,): memory.status.depth for name, memory in histories.items()}

    def function_waits(self) -> Rows:
        """Return the wait of each function's oldest queued invocation, or 0 if none waits."""
        now, histories = self._now(), self.histories.declared
        return {(name,): memory.oldest_wait_seconds(now) for name, memory in histories.items()}

    @property
    def queues(self) -> tuple[WorkQueue[str], ...]:
        return (self._keys,)

    async def run(self) -> None:
        """Run from the moment this process leads; its caches are complete then."""
        connection, names = self._queue.connection, self._queue.names
        async with AsyncExitStack() as stack:
            for subject, receive in (
                (names.all_beats, self.triggers.on_beat),
                (names.all_wakes, self.triggers.on_wake),
                (names.lost_consumers, self._on_lost_consumer),
            ):
                await stack.enter_async_context(connection.listening(subject, receive))
            self.leadership.begin()
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self.controller.run(), name="functions")
                tasks.create_task(self.depth_poller.run(), name="depths")
                tasks.create_task(self._follow_sessions(), name="sessions")
                tasks.create_task(self._survey(), name="consumers")
                tasks.create_task(self._measure(), name="measure")
                tasks.create_task(self._count_dead_letters(), name="dead letters")
                tasks.create_task(self.recorder.run(), name="events")

    async def drain(self) -> None:
        await self.controller.drain()
        await self.recorder.settle(SETTLE_SECONDS)

    def _make_scaler(
        self,
        means: OperationContext,
        units: Units,
        orphans: Orphans,
        catch_up: Callable[[], Awaitable[None]],
        *,
        grace_seconds: float,
    ) -> Scaler:
        caches, queue, histories = means.caches, self._queue, self.histories
        return Scaler(
            observer=Observer(
                units=caches.units,
                stock=caches.stock,
                depth_of=self.depth_poller.of,
                beat_of=self._beats.of,
                receiving_since=lambda: self.receiving_since,
                histories=histories,
                grace_seconds=grace_seconds,
                meter=self._meter,
            ),
            actions=Actions(
                workers=WorkerUnits(means, units, queue.connection, queue.names, rng=means.rng),
                consumers=self._consumers,
                takeovers=Takeovers(caches.units, orphans, self._beats),
                undeclared=UndeclaredFunctions(
                    units=caches.units,
                    consumers=self._consumers,
                    orphans=orphans,
                    catch_up=catch_up,
                ),
                histories=histories,
                meter=self._meter,
            ),
            reporter=Reporter(
                client=means.client,
                units=caches.units,
                depths=self._depths,
                recorder=self.recorder,
                histories=histories,
                now=means.now,
            ),
        )

    async def _follow_sessions(self) -> None:
        """Start again at each new session: silence while disconnected proves nothing."""
        while True:
            session = await self._queue.connection.connected()
            self.receiving_since = loop_time()
            self.depth_poller.request_poll()
            self._survey_due.set()
            await session.ended.wait()
            self.receiving_since = None
            self.depth_poller.forget()

    async def _survey(self) -> None:
        """Recreate missing consumers, and delete consumers of functions that no unit declares."""
        while True:
            try:
                await self._survey_consumers()
            except BusError as error:
                log.debug("consumers not surveyed", reason=str(error))
            self._survey_due.clear()
            await is_set_within(self._survey_due, SURVEY_SECONDS)

    async def _survey_consumers(self) -> None:
        survey = await self._consumers.survey()
        for function in survey.gone:
            log.warning("consumer recreated", function=function)
            self._keys.add(function)
        for function in survey.others:
            if not self._units.store.by_index(FUNCTION, function):
                self._keys.add(function)

    def _on_lost_consumer(self, message: Message) -> None:
        function = message.subject.rpartition(".")[2]
        self._consumers.forget(function)
        if self._units.store.by_index(FUNCTION, function):
            self._keys.add(function)

    def _report_depth(self, function: str, *, is_urgent: bool) -> None:
        self.triggers.wake(function, is_urgent=is_urgent)

    def _wake_all(self) -> None:
        for function in functions_in(self._units):
            self._keys.add(function, lane=Lane.BACKLOG)

    async def _measure(self) -> None:
        while True:
            statuses = [memory.status for memory in self.histories.declared.values()]
            for state, count in (
                ("desired", sum(status.desiredWorkers for status in statuses)),
                ("ready", sum(status.readyWorkers for status in statuses)),
                ("busy", sum(status.busyWorkers for status in statuses)),
                ("draining", sum(status.drainingWorkers for status in statuses)),
            ):
                self._meter.gauge("serverless_workers", count, state=state)
            oldest = max((status.oldestWaitSeconds for status in statuses), default=0)
            self._meter.gauge("serverless_oldest_wait_seconds", oldest)
            await asyncio.sleep(MEASURE_SECONDS)

    async def _count_dead_letters(self) -> None:
        """Count them, and retry soon while the broker is unreachable or has no streams yet."""
        while True:
            pause = MEASURE_SECONDS
            with suppress(BusError):
                count = await self._depths.dead_letters()
                self._meter.gauge("serverless_dead_letters", count)
                pause = DEAD_LETTERS_SECONDS
            await asyncio.sleep(pause)
