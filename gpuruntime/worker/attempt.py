"""An attempt: one delivery from its arrival to its ack, fenced by the record at both ends.

Contract: the framework is called only after the `running` record of this attempt is written. Its
answer counts only if it replaces exactly that record. A worker that loses the record ends its call
without an answer and without an ack.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from typing import Final, Protocol, assert_never

import attrs
import structlog
from structlog.contextvars import bind_contextvars

from gpuruntime.bus.delivery import Delivery
from gpuruntime.bus.errors import BusError, MalformedMessageError, UnavailableError
from gpuruntime.bus.messages import Invocation, read_invocation
from gpuruntime.bus.records import ConflictError, Records, StoredRecord
from gpuruntime.meter import Meter
from gpuruntime.models.kinds.invocations import FailureClass
from gpuruntime.worker.delivery_lease import DeliveryLease, Loss
from gpuruntime.worker.delivery_plan import Drop, End, Leave, Limits, Start, assumed_record, decide
from gpuruntime.worker.options import WorkerOptions
from gpuruntime.worker.outcome_writer import OutcomeWriter
from gpuruntime.worker.outcomes import Ended, Failure, NotCalled, Outcome, RetryLater, conclude

log = structlog.get_logger()

# If other writes come first this often, the message is given back and retried later.
LOOKS: Final = 5
PAUSE_SECONDS: Final = 1.0


class Callee(Protocol):
    """The component that runs the user's function."""

    async def problem(self) -> str:
        """Return why it cannot take calls; empty if it reports that it can."""
        ...

    async def call(
        self, invocation: Invocation, *, attempt: int, within_seconds: float
    ) -> Outcome: ...


@attrs.frozen(kw_only=True, slots=True)
class AttemptContext:
    options: WorkerOptions
    limits: Limits
    records: Records
    ends: OutcomeWriter
    framework: Callee
    now: Callable[[], datetime]
    meter: Meter
    meet_foreign: Callable[[], None]


class Attempt:
    """An attempt replaces its `delivery` if the broker delivers the same message here again."""

    def __init__(self, tools: AttemptContext, delivery: Delivery) -> None:
        self.delivery = delivery
        self.invocation_id = ""
        self._tools = tools
        self._hold: DeliveryLease | None = None
        self._is_released = False

    async def run(self) -> None:
        """Run the attempt without ever raising: the broker redelivers what is left open."""
        try:
            await self._run()
        except BusError as error:
            log.warning("invocation left for redelivery", reason=str(error))
            self._count("left")

    def request_check(self) -> None:
        """Read the record now, because it is reported to have changed."""
        if self._hold is not None:
            self._hold.request_check()

    def release(self) -> None:
        """Abort the call and give the message back, because the worker is shutting down."""
        self._is_released = True
        if self._hold is not None:
            self._hold.end(Loss.RELEASED)

    async def _run(self) -> None:
        options = self._tools.options
        try:
            invocation = read_invocation(self.delivery.data, function=options.function)
        except MalformedMessageError as error:
            await self._tools.ends.write_unreadable(options.function, self.delivery, str(error))
            await self._ack("malformed")
            return
        self.invocation_id = invocation.invocationID
        # Each attempt runs in a task of its own, so these reach its own log lines only.
        bind_contextvars(invocation=self.invocation_id)
        mine = await self._begin(invocation)
        if mine is not None:
            bind_contextvars(attempt=mine.record.attempt)
            await self._hold_and_call(invocation, mine)

    async def _begin(self, invocation: Invocation) -> StoredRecord | None:
        """Return the `running` record of this attempt, or None if there is nothing to run."""
        stored: StoredRecord | None = assumed_record(invocation)
        for _ in range(LOOKS):
            decision = decide(
                invocation,
                stored,
                sequence=self.delivery.sequence,
                worker=self._tools.options.name,
                declarer=self._tools.options.declarer,
                now=self._tools.now(),
                limits=self._tools.limits,
            )
            if isinstance(decision, Drop) or stored is None:
                await self._ack("dropped")
                return None
            if isinstance(decision, Leave):
                self._tools.meet_foreign()
                self._count("foreign")
                break
            try:
                return await self._apply(decision, stored.revision)
            except ConflictError as conflict:
                stored = conflict.current
        await self._give_back(PAUSE_SECONDS)
        return None

    async def _apply(self, decision: Start | End, revision: int) -> StoredRecord | None:
        match decision:
            case Start(record):
                return await self._tools.records.write(record, expected=revision)
            case End(record):
                await self._tools.ends.write(record, self.delivery, expected=revision)
                await self._ack(record.state.value)
                return None
            case _:
                assert_never(decision)

    async def _hold_and_call(self, invocation: Invocation, mine: StoredRecord) -> None:
        """Call the framework and write the outcome, while the lease keeps the delivery.

        The lease lasts until the outcome is written, since the broker may be unreachable for a
        while.
        """
        hold = self._hold = DeliveryLease(self, self._tools.records, mine, self._tools.options)
        if self._is_released:
            hold.end(Loss.RELEASED)
        async with asyncio.TaskGroup() as tasks:
            holding = tasks.create_task(hold.run(), name="hold")
            try:
                outcome = await self._call(tasks, hold, invocation, mine)
                if outcome is None:
                    await self._lose(hold)
                else:
                    await self._end(hold, mine, outcome)
            finally:
                holding.cancel()

    async def _call(
        self,
        tasks: asyncio.TaskGroup,
        hold: DeliveryLease,
        invocation: Invocation,
        mine: StoredRecord,
    ) -> Outcome | None:
        """Return the outcome, or None if another worker owns the invocation now."""
        left = (mine.record.deadlineAt - self._tools.now()).total_seconds()
        longest = self._tools.options.attempt_seconds
        seconds = min(longest, invocation.timeoutSeconds or longest, left)
        if seconds <= 0:
            return Failure(cause=FailureClass.FRAMEWORK_TIMEOUT, error="no time was left")
        call = tasks.create_task(
            self._tools.framework.call(
                invocation, attempt=mine.record.attempt, within_seconds=seconds
            ),
            name="call",
        )
        hold.when_ended(call.cancel)
        await asyncio.wait([call])
        if not call.cancelled():
            return call.result()
        if hold.loss is Loss.RELEASED:
            return NotCalled("the worker was told to stop", pause_seconds=0.0)
        return None

    async def _end(self, hold: DeliveryLease, mine: StoredRecord, outcome: Outcome) -> None:
        tools = self._tools
        conclusion = conclude(mine.record, outcome, now=tools.now(), limits=tools.limits)
        record = conclusion.record
        while not hold.is_lost:
            try:
                await tools.ends.write(record, self.delivery, expected=mine.revision)
            except ConflictError as conflict:
                hold.lose_to(conflict.current)
                break
            except BusError as error:
                log.warning("outcome not written yet", reason=str(error))
                await asyncio.sleep(PAUSE_SECONDS)
                continue
            if record.error:
                log.warning("attempt failed", error=record.error)
            match conclusion:
                case Ended():
                    await self._ack(record.state.value)
                case RetryLater(_, pause_seconds):
                    await self._give_back(pause_seconds)
                case _:
                    assert_never(conclusion)
            return
        await self._lose(hold)

    async def _lose(self, hold: DeliveryLease) -> None:
        loss = hold.loss or Loss.SUPERSEDED
        log.warning("attempt lost", reason=loss.value)
        if loss is Loss.OVER:
            await self._ack(loss.value)
        else:
            self._count(loss.value)

    async def _ack(self, end: str) -> None:
        """Acknowledge the message. If the ack is lost, the record shows at redelivery that it is
        over.
        """
        self._count(end)
        with suppress(UnavailableError):
            await self.delivery.ack()

    async def _give_back(self, pause_seconds: float) -> None:
        """Give the message back. If this is lost, the broker redelivers it later anyway."""
        self._count("again")
        with suppress(UnavailableError):
            await self.delivery.give_back(delay_seconds=pause_seconds)

    def _count(self, end: str) -> None:
        self._tools.meter.count("worker_deliveries_total", end=end)
