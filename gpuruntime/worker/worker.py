"""The worker pulls while its framework is healthy and a slot is free, and drains on request.

Contract: it writes only records, body parts and dead letters of its own function. It configures
nothing on the broker and requests nothing from the cluster.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from random import Random
from typing import Final

import attrs
import structlog

from gpuruntime.bus import messages
from gpuruntime.bus.connection import Connection
from gpuruntime.bus.delivery import Delivery
from gpuruntime.bus.errors import MalformedMessageError, UnavailableError
from gpuruntime.bus.jetstream import JetStream
from gpuruntime.bus.messages import Control, ControlCommand, Heartbeat, WorkerState
from gpuruntime.bus.names import Names
from gpuruntime.bus.pull import Pull
from gpuruntime.bus.records import Records
from gpuruntime.bus.session import Message
from gpuruntime.concurrency.waiting import is_set_within
from gpuruntime.meter import Meter, NullMeter
from gpuruntime.worker.attempt import Attempt, AttemptContext, Callee
from gpuruntime.worker.delivery_plan import Limits
from gpuruntime.worker.options import WorkerOptions
from gpuruntime.worker.outcome_writer import OutcomeWriter

log = structlog.get_logger()

# While the framework starts, the function is not served, so its health is checked often.
UNWELL_SECONDS: Final = 0.5
# Thousands of calls may start and end in a second; heartbeats about them are this far apart.
BEATS_APART_SECONDS: Final = 1.0
# The time limit for giving released invocations back.
GIVE_BACK_SECONDS: Final = 1.0


class Worker:
    def __init__(
        self,
        connection: Connection,
        framework: Callee,
        options: WorkerOptions,
        *,
        names: Names,
        now: Callable[[], datetime],
        rng: Random,
        meter: Meter = NullMeter(),
    ) -> None:
        self._connection = connection
        self._framework = framework
        self._options = options
        self._names = names
        self._meter = meter
        jetstream = JetStream(connection, meter=meter)
        records = Records(jetstream, names, rng=rng)
        self._tools = AttemptContext(
            options=options,
            limits=Limits(max_attempts=options.max_attempts),
            records=records,
            ends=OutcomeWriter(
                jetstream, records, names, retention_seconds=options.retention_seconds, now=now
            ),
            framework=framework,
            now=now,
            meter=meter,
            meet_foreign=self._meet_foreign,
        )
        self._foreign = 0
        self._pull = Pull(
            connection,
            names.next_invocation(options.function),
            wanted=lambda: self._free_slots,
            receive=self._receive,
            rng=rng,
            options=options.pull,
            meter=meter,
        )
        self._attempts: dict[int, Attempt] = {}
        self._tasks: asyncio.TaskGroup | None = None
        self._state = WorkerState.STARTING
        self._problem = "not checked yet"
        self._state_changed = asyncio.Event()
        self._changed = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def state(self) -> WorkerState:
        return self._state

    @property
    def busy(self) -> int:
        return len(self._attempts)

    @property
    def not_ready(self) -> str:
        """Return why it takes no invocations; empty while it does."""
        if self._state in (WorkerState.DRAINING, WorkerState.DRAINED):
            return self._state.value
        if self._connection.problem:
            return f"broker: {self._connection.problem}"
        return f"framework: {self._problem}" if self._problem else ""

    async def run(self) -> None:
        control = self._names.control(self._options.function, self._options.name)
        async with (
            self._connection.listening(control, self._on_control),
            asyncio.TaskGroup() as tasks,
        ):
            self._tasks = tasks
            tasks.create_task(self._pull.run(), name="pull")
            tasks.create_task(self._watch_health(), name="health")
            tasks.create_task(self._send_heartbeats(), name="beat")

    def limit(self, *, attempt_seconds: float, max_attempts: int) -> None:
        """Change the limits, from the next attempt on."""
        tools = self._tools
        options = attrs.evolve(
            tools.options, attempt_seconds=attempt_seconds, max_attempts=max_attempts
        )
        if options != tools.options:
            limits = attrs.evolve(tools.limits, max_attempts=max_attempts)
            self._tools = attrs.evolve(tools, options=options, limits=limits)
            log.info("limits changed", attempt_seconds=attempt_seconds, attempts=max_attempts)

    async def drain(self) -> None:
        """Stop pulling, let running calls end within `drain_seconds`, and give back the rest."""
        self._start_drain()
        await is_set_within(self._idle, self._options.drain_seconds)
        for attempt in self._attempts.values():
            attempt.release()
        await is_set_within(self._idle, GIVE_BACK_SECONDS)
        await self._send_heartbeat()

    @property
    def _free_slots(self) -> int:
        if self._state is not WorkerState.READY:
            return 0
        return self._options.concurrency - len(self._attempts)

    def _receive(self, delivery: Delivery) -> None:
        """Start an attempt, or update the delivery of an attempt that already runs here."""
        running = self._attempts.get(delivery.sequence)
        if running is not None and running.delivery.data == delivery.data:
            running.delivery = delivery
            return
        tasks = self._tasks
        if tasks is None:
            return
        # Another message with a sequence that runs here comes from a recreated stream.
        if running is not None or self._free_slots <= 0:
            self._meter.count("worker_deliveries_total", end="not_wanted")
            tasks.create_task(_give_back(delivery), name="give-back")
            return
        attempt = self._attempts[delivery.sequence] = Attempt(self._tools, delivery)
        self._idle.clear()
        running_task = tasks.create_task(attempt.run(), name="attempt")
        running_task.add_done_callback(lambda _: self._ended(delivery.sequence))
        self._note_busy()

    def _ended(self, sequence: int) -> None:
        del self._attempts[sequence]
        if not self._attempts:
            self._idle.set()
            if self._state is WorkerState.DRAINING:
                self._set_state(WorkerState.DRAINED)
        self._note_busy()
        self._pull.wake()

    def _note_busy(self) -> None:
        self._meter.gauge("worker_busy", len(self._attempts))
        self._changed.set()

    def _meet_foreign(self) -> None:
        """Count an invocation of an earlier declarer and send a heartbeat.

        The activator then ends it.
        """
        self._foreign += 1
        self._changed.set()

    def _start_drain(self) -> None:
        if self._state not in (WorkerState.DRAINING, WorkerState.DRAINED):
            self._set_state(WorkerState.DRAINING if self._attempts else WorkerState.DRAINED)

    def _set_state(self, state: WorkerState) -> None:
        if state is not self._state:
            log.info("worker state changed", state=state.value, reason=self._problem)
            self._state = state
            self._state_changed.set()
            self._changed.set()
            self._pull.wake()

    def _on_control(self, message: Message) -> None:
        try:
            control = messages.read(message.data, Control)
        except MalformedMessageError as error:
            log.warning("order dropped", reason=str(error))
            return
        if control.order is ControlCommand.DRAIN:
            if self._is_meant(control):
                self._start_drain()
            return
        for attempt in self._attempts.values():
            if attempt.invocation_id == control.invocationID:
                attempt.request_check()

    def _is_meant(self, order: Control) -> bool:
        """Return whether the order is for this worker: names are reused, and orders may arrive
        late.
        """
        uids = {order.uid, self._options.uid} - {""}
        if len(uids) > 1:
            log.info("order for an earlier worker of this name dropped", uid=order.uid)
        return len(uids) <= 1

    async def _watch_health(self) -> None:
        """Report the framework unhealthy only after two failed checks in a row."""
        was_bad = True
        while True:
            problem = await self._framework.problem()
            if not problem or was_bad:
                self._note_health(problem)
            was_bad = bool(problem)
            await asyncio.sleep(UNWELL_SECONDS if problem else self._options.health_seconds)

    def _note_health(self, problem: str) -> None:
        self._problem = problem
        if self._state in (WorkerState.STARTING, WorkerState.READY):
            self._set_state(WorkerState.STARTING if problem else WorkerState.READY)

    async def _send_heartbeats(self) -> None:
        while True:
            self._state_changed.clear()
            self._changed.clear()
            await self._send_heartbeat()
            apart = min(BEATS_APART_SECONDS, self._options.beat_seconds)
            if not await is_set_within(self._state_changed, apart):
                await is_set_within(self._changed, self._options.beat_seconds - apart)

    async def _send_heartbeat(self) -> None:
        """Publish one heartbeat; if it is lost, the next one follows."""
        beat = Heartbeat(
            workerName=self._options.name,
            uid=self._options.uid,
            serverlessRequestID=self._options.function,
            state=self._state,
            busy=len(self._attempts),
            foreign=self._foreign,
            concurrency=self._options.concurrency,
            reason=self.not_ready,
        )
        subject = self._names.beat(self._options.function, self._options.name)
        with suppress(UnavailableError):
            await self._connection.publish(subject, messages.encode(beat))


async def _give_back(delivery: Delivery) -> None:
    with suppress(UnavailableError):
        await delivery.give_back()
