import asyncio
import time
from random import Random

import msgspec
import pytest

from gpuruntime.bus.chunks import Bodies
from gpuruntime.bus.messages import (
    Control,
    ControlCommand,
    DeadLetter,
    Heartbeat,
    WorkerState,
    encode,
    read,
)
from gpuruntime.bus.names import dead_letter_id, unreadable_letter_id
from gpuruntime.bus.provisioning import declare_consumer
from gpuruntime.bus.streams import consumer_declaration
from gpuruntime.framework.calls import Answer, Call, CallError
from gpuruntime.models.kinds.invocations import FailureClass, State
from gpuruntime.worker.attempt import Attempt
from tests.eventually import equals, eventually
from tests.rooms.bus.broker import FUNCTION, Broker, Bus, bus
from tests.rooms.bus.test_pull import pulling
from tests.rooms.worker.conftest import ACK_WAIT_SECONDS
from tests.rooms.worker.invocations import accept, send, turn
from tests.rooms.worker.workers import Ledger, ended, left_in, left_in_stream, until_empty, working


async def letter(made: Bus, letter_id: str) -> DeadLetter | None:
    subject = made.names.dead_letter(FUNCTION, letter_id)
    found = await made.jetstream.last(made.names.dead_letters, subject)
    return read(found.data, DeadLetter) if found else None


async def order(
    made: Bus, what: ControlCommand, *, worker: str = "w1", name: str = "", uid: str = ""
) -> None:
    subject = made.names.control(FUNCTION, worker)
    told = Control(order=what, invocationID=name, uid=uid)
    await made.connection.publish(subject, encode(told))


async def cancel(made: Bus, name: str) -> None:
    """Cancel as the API does: the record first, then an order to the worker."""
    await turn(made, name, state=State.CANCELLED)
    await order(made, ControlCommand.CANCEL, name=name)


async def redeclare(made: Bus) -> None:
    """Delete the consumer and create it again."""
    stream = made.names.invocations
    await made.jetstream.call(f"CONSUMER.DELETE.{stream}.{FUNCTION}")
    again = consumer_declaration(made.names, FUNCTION, ack_wait_seconds=ACK_WAIT_SECONDS)
    await declare_consumer(made.jetstream, stream, again)


async def test_an_invocation_is_answered_once_and_leaves_the_stream(declared: Bus) -> None:
    ledger = Ledger()
    async with working(declared, ledger.handle):
        await accept(declared, "a", payload={"x": [1, None]})
        record = await ended(declared, "a")
        await until_empty(declared)
    assert record.state is State.SUCCEEDED
    assert msgspec.json.decode(record.body) == {"echo": {"x": [1, None]}, "by": "w1"}
    assert (record.attempt, record.workerName, record.statusCode) == (1, "w1", 200)
    assert record.startedAt
    assert record.completedAt
    assert record.acceptedAt <= record.startedAt <= record.completedAt
    assert ledger.started == [("a", 1)]


async def test_no_more_calls_run_at_once_than_the_function_allows(declared: Bus) -> None:
    ledger = Ledger()
    ledger.gate.clear()
    for number in range(6):
        await accept(declared, f"i{number}")
    async with working(declared, ledger.handle, concurrency=2) as worker:
        await eventually(lambda: len(ledger.starts), equals(2))
        await asyncio.sleep(0.3)
        assert len(ledger.starts) == worker.busy == 2
        ledger.gate.set()
        await until_empty(declared)
    assert ledger.started == [(f"i{number}", 1) for number in range(6)]


async def test_a_long_body_is_read_back_from_its_parts(declared: Bus) -> None:
    text = Random(5).randbytes(300_000).hex()
    async with working(declared, lambda _: text):
        await accept(declared, "long")
        record = await ended(declared, "long")
    bodies = Bodies(declared.jetstream, declared.names)
    parts = [await bodies.read_part(record, part) for part in range(record.bodyParts)]
    assert record.bodyParts == 3
    assert bytes(record.body) == b"null"
    assert msgspec.json.decode(b"".join(parts)) == text


async def test_a_failed_attempt_is_retried_until_the_last_makes_a_dead_letter(
    declared: Bus,
) -> None:
    ledger = Ledger()

    async def fail(call: Call) -> object:
        await ledger.handle(call)
        raise CallError("no model")

    async with working(declared, fail, max_attempts=2):
        sent = await accept(declared, "bad")
        record = await ended(declared, "bad")
        await until_empty(declared)
    assert record.state is State.DEAD_LETTERED
    assert record.failureClass is FailureClass.RETRY_EXHAUSTED
    assert record.error == "attempt 2: framework_error: no model"
    assert ledger.started == [("bad", 1), ("bad", 2)]
    dead = await letter(declared, dead_letter_id(FUNCTION, "bad", 1))
    assert dead is not None
    assert bytes(dead.invocation) == encode(sent)
    assert (dead.attempt, dead.failureClass) == (2, FailureClass.RETRY_EXHAUSTED)


@pytest.mark.parametrize("end", [State.CANCELLED, State.EXPIRED, State.SUCCEEDED])
async def test_an_invocation_that_ended_otherwise_has_no_dead_letter(
    declared: Bus, end: State
) -> None:
    async def fail(call: Call) -> object:
        await turn(declared, call.invocationID, state=end)
        raise CallError("no model")

    async with working(declared, fail, max_attempts=1):
        await accept(declared, "bad")
        await until_empty(declared)
        await eventually(lambda: left_in(declared, declared.names.dead_letters), equals(0))
    assert (await ended(declared, "bad")).state is end


async def test_a_dead_letter_of_another_attempt_of_the_series_stays(declared: Bus) -> None:
    """Both workers dead-letter the last attempt, and one of them writes its end."""

    async def fail(call: Call) -> object:
        await turn(declared, call.invocationID, state=State.DEAD_LETTERED, workerName="other")
        raise CallError("no model")

    async with working(declared, fail, max_attempts=1):
        await accept(declared, "bad")
        await until_empty(declared)
    assert await letter(declared, dead_letter_id(FUNCTION, "bad", 1)) is not None


@pytest.mark.parametrize(
    "data", [b"not json", b"{}", b"\xff", b'{"invocationID":"a.b","serverlessRequestID":"echo"}']
)
async def test_a_poison_message_becomes_a_dead_letter_and_other_work_continues(
    declared: Bus, data: bytes
) -> None:
    ledger = Ledger()
    async with working(declared, ledger.handle):
        poison = await declared.jetstream.publish(
            declared.names.invoke(FUNCTION), data, message_id="poison"
        )
        await accept(declared, "good")
        assert (await ended(declared, "good")).state is State.SUCCEEDED
        await until_empty(declared)
    dead = await letter(declared, unreadable_letter_id(FUNCTION, poison.sequence))
    assert dead is not None
    assert (dead.failureClass, dead.unreadable) == (FailureClass.MALFORMED_MESSAGE, data)


async def test_a_late_copy_is_dropped(declared: Bus) -> None:
    ledger = Ledger()
    async with working(declared, ledger.handle):
        sent = await accept(declared, "a")
        first = await ended(declared, "a")
        await send(declared, sent, message_id="after the window of duplicates")
        await until_empty(declared)
    assert ledger.started == [("a", 1)]
    assert await ended(declared, "a") == first


async def test_a_copy_of_a_running_invocation_is_dropped_and_disturbs_nothing(
    declared: Bus,
) -> None:
    ledger = Ledger()
    ledger.gate.clear()
    async with working(declared, ledger.handle), working(declared, ledger.handle, "w2"):
        sent = await accept(declared, "a")
        await eventually(lambda: ledger.starts)
        await send(declared, sent, message_id="a copy")
        await until_empty(declared, but=1)
        ledger.gate.set()
        assert (await ended(declared, "a")).attempt == 1
        await until_empty(declared)
    assert ledger.started == [("a", 1)]


async def test_an_invocation_without_its_record_is_dropped(declared: Bus) -> None:
    ledger = Ledger()
    sent = await accept(declared, "a")
    stored = await declared.records.read(FUNCTION, "a")
    assert stored is not None
    await declared.records.delete(stored)
    async with working(declared, ledger.handle):
        await until_empty(declared)
    assert ledger.started == []
    assert sent.revision == stored.revision


async def test_an_overdue_invocation_expires_and_never_starts(
    declared: Bus,
) -> None:
    ledger = Ledger()
    await accept(declared, "late", life_seconds=0.0)
    async with working(declared, ledger.handle):
        record = await ended(declared, "late")
        await until_empty(declared)
    assert (record.state, record.failureClass) == (State.EXPIRED, FailureClass.EXPIRED)
    assert ledger.started == []


async def test_an_attempt_ends_at_its_own_deadline(declared: Bus) -> None:
    ledger = Ledger()
    ledger.gate.clear()
    async with working(declared, ledger.handle, attempt_seconds=0.2, max_attempts=1):
        await accept(declared, "slow")
        record = await ended(declared, "slow")
    assert record.state is State.DEAD_LETTERED
    assert record.failureClass is FailureClass.FRAMEWORK_TIMEOUT


async def test_a_call_is_ended_at_the_deadline_of_the_invocation(declared: Bus) -> None:
    ledger = Ledger()
    ledger.gate.clear()
    async with working(declared, ledger.handle):
        await accept(declared, "short", life_seconds=0.7)
        record = await ended(declared, "short")
    assert record.state is State.EXPIRED
    assert "framework_timeout" in record.error


async def test_a_call_longer_than_the_ack_wait_is_not_redelivered(
    declared: Bus,
) -> None:
    ledger = Ledger()
    ledger.gate.clear()
    async with working(declared, ledger.handle), working(declared, ledger.handle, "w2"):
        await accept(declared, "a")
        await asyncio.sleep(2.5 * ACK_WAIT_SECONDS)
        ledger.gate.set()
        assert (await ended(declared, "a")).attempt == 1
        await until_empty(declared)
    assert ledger.started == [("a", 1)]


async def test_a_cancelled_queued_invocation_never_starts(declared: Bus) -> None:
    ledger = Ledger()
    await accept(declared, "a")
    await cancel(declared, "a")
    async with working(declared, ledger.handle):
        await until_empty(declared)
    assert ledger.started == []
    assert (await ended(declared, "a")).state is State.CANCELLED


async def test_a_cancelled_running_invocation_is_aborted_at_once(
    declared: Bus,
) -> None:
    ledger = Ledger()
    ledger.gate.clear()
    async with working(declared, ledger.handle) as worker:
        await accept(declared, "a")
        await eventually(lambda: ledger.starts)
        started = time.monotonic()
        await cancel(declared, "a")
        await eventually(lambda: worker.busy, equals(0))
        assert time.monotonic() - started < ACK_WAIT_SECONDS / 3
        await until_empty(declared)
        assert time.monotonic() - started < ACK_WAIT_SECONDS
    assert (await ended(declared, "a")).state is State.CANCELLED


async def test_an_order_to_cancel_an_open_invocation_changes_nothing(declared: Bus) -> None:
    ledger = Ledger()
    ledger.gate.clear()
    async with working(declared, ledger.handle):
        await accept(declared, "a")
        await eventually(lambda: ledger.starts)
        await order(declared, ControlCommand.CANCEL, name="a")
        await declared.connection.publish(declared.names.control(FUNCTION, "w1"), b"nonsense")
        await asyncio.sleep(0.2)
        ledger.gate.set()
        assert (await ended(declared, "a")).state is State.SUCCEEDED


async def test_the_result_of_an_attempt_that_was_taken_over_is_rejected(
    declared: Bus,
) -> None:
    """A recreated consumer delivers the running message once more."""
    first, second = Ledger(), Ledger()
    first.gate.clear()
    second.gate.clear()
    async with working(declared, first.handle) as slow:
        await accept(declared, "a")
        await eventually(lambda: first.starts)
        async with working(declared, second.handle, "w2", concurrency=5):
            await eventually(lambda: slow.busy, equals(1))
            await redeclare(declared)
            await eventually(lambda: second.starts)
            first.gate.set()
            await eventually(lambda: slow.busy, equals(0))
            assert (await declared.records.read(FUNCTION, "a")).record.state is State.RUNNING  # type: ignore[union-attr]  # it is there
            second.gate.set()
            record = await ended(declared, "a")
            await until_empty(declared)
    assert (record.attempt, record.workerName) == (2, "w2")
    assert (first.started, second.started) == ([("a", 1)], [("a", 2)])


async def test_a_message_redelivered_to_the_worker_that_runs_it_is_not_run_again(
    declared: Bus,
) -> None:
    ledger = Ledger()
    ledger.gate.clear()
    async with working(declared, ledger.handle, concurrency=2) as worker:
        await accept(declared, "a")
        await eventually(lambda: ledger.starts)
        (attempt,) = worker._attempts.values()
        first = attempt.delivery
        await redeclare(declared)
        await accept(declared, "b")
        await eventually(lambda: len(ledger.starts), equals(2))
        assert attempt.delivery is not first
        ledger.gate.set()
        assert (await ended(declared, "a")).attempt == 1
        await until_empty(declared)
    assert ledger.started == [("a", 1), ("b", 1)]


async def test_a_worker_suspended_for_longer_than_the_ack_wait_gives_up_its_calls(
    declared: Bus,
) -> None:
    ledger = Ledger()
    ledger.gate.clear()
    async with working(declared, ledger.handle) as worker:
        await accept(declared, "a")
        await eventually(lambda: ledger.starts)
        time.sleep(1.2 * ACK_WAIT_SECONDS)  # noqa: ASYNC251 - nothing of this process may run
        await eventually(lambda: worker.busy == 0 or len(ledger.starts) == 2)
        ledger.gate.set()
        record = await ended(declared, "a")
    assert record.attempt == 2
    assert ledger.started == [("a", 1), ("a", 2)]


async def test_a_draining_worker_ends_its_calls_and_takes_no_more(declared: Bus) -> None:
    ledger = Ledger()
    ledger.gate.clear()
    async with working(declared, ledger.handle, drain_seconds=10.0) as worker:
        await accept(declared, "a")
        await eventually(lambda: ledger.starts)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(worker.drain())
            await eventually(lambda: worker.state is WorkerState.DRAINING)
            await asyncio.sleep(0.1)
            await accept(declared, "b")
            ledger.gate.set()
        assert worker.state is WorkerState.DRAINED
        assert (await ended(declared, "a")).state is State.SUCCEEDED
    assert ledger.started == [("a", 1)]
    assert await left_in_stream(declared) == 1


async def test_a_call_that_outlasts_the_drain_is_given_back_without_using_up_an_attempt(
    declared: Bus,
) -> None:
    slow, quick = Ledger(), Ledger()
    slow.gate.clear()
    async with working(declared, slow.handle, max_attempts=1) as worker:
        await accept(declared, "a")
        await eventually(lambda: slow.starts)
        await worker.drain()
        assert worker.busy == 0
        async with working(declared, quick.handle, "w2", max_attempts=1):
            record = await ended(declared, "a")
    assert record.state is State.SUCCEEDED
    assert (record.attempt, record.forgiven, record.workerName) == (2, 1, "w2")


async def test_an_attempt_released_before_its_call_gives_its_message_back_uncalled(
    declared: Bus,
) -> None:
    ledger = Ledger()
    async with pulling(declared, room=1) as holder:
        await accept(declared, "a")
        await eventually(lambda: holder.taken)
        async with working(declared, ledger.handle) as worker:
            attempt = Attempt(worker._tools, holder.taken[0])
            attempt.release()
            await attempt.run()
            record = await ended(declared, "a")
    assert (record.attempt, record.forgiven) == (2, 1)
    assert ledger.started == [("a", 2)]


async def test_the_number_of_running_calls_is_reported_soon_but_not_for_each_call(
    declared: Bus,
) -> None:
    ledger = Ledger()
    beats: list[Heartbeat] = []
    subject = declared.names.beat(FUNCTION, "w1")
    async with (
        declared.connection.listening(subject, lambda m: beats.append(read(m.data, Heartbeat))),
        working(declared, ledger.handle, beat_seconds=60.0),
    ):
        await eventually(lambda: any(beat.state is WorkerState.READY for beat in beats))
        for number in range(20):
            await accept(declared, f"i{number}")
        await until_empty(declared)
        ledger.gate.clear()
        await accept(declared, "held")
        await eventually(lambda: beats[-1].busy, equals(1))
        ledger.gate.set()
        await eventually(lambda: beats[-1].busy, equals(0))
    assert len(beats) < 20


async def test_an_invocation_for_another_declarer_never_runs_and_is_reported(
    declared: Bus,
) -> None:
    """The function of that name may have been another tenant's."""
    ledger = Ledger()
    beats: list[Heartbeat] = []
    subject = declared.names.beat(FUNCTION, "w1")
    async with (
        declared.connection.listening(subject, lambda m: beats.append(read(m.data, Heartbeat))),
        working(declared, ledger.handle, declarer="b"),
    ):
        await accept(declared, "theirs", declarer="a")
        await accept(declared, "ours", declarer="b")
        assert (await ended(declared, "ours")).state is State.SUCCEEDED
        await eventually(lambda: bool(beats) and beats[-1].foreign > 0)
    record = await declared.records.read(FUNCTION, "theirs")
    assert record is not None
    assert (record.record.state, record.record.attempt) == (State.QUEUED, 0)
    assert ledger.started == [("ours", 1)]


async def test_a_worker_reports_its_state_until_it_is_drained(declared: Bus) -> None:
    ledger = Ledger()
    beats: list[Heartbeat] = []
    subject = declared.names.beat(FUNCTION, "w1")
    async with (
        declared.connection.listening(subject, lambda m: beats.append(read(m.data, Heartbeat))),
        working(declared, ledger.handle, concurrency=3, uid="u"),
    ):
        await eventually(lambda: any(beat.state is WorkerState.READY for beat in beats))
        ledger.gate.clear()
        await accept(declared, "a")
        await eventually(lambda: beats[-1].busy, equals(1))
        await order(declared, ControlCommand.DRAIN)
        await eventually(lambda: beats[-1].state is WorkerState.DRAINING)
        ledger.gate.set()
        await eventually(lambda: beats[-1].state is WorkerState.DRAINED)
    assert {(beat.workerName, beat.uid, beat.concurrency) for beat in beats} == {("w1", "u", 3)}
    assert beats[0].reason


async def test_a_drain_order_for_an_earlier_worker_of_the_name_changes_nothing(
    declared: Bus,
) -> None:
    ledger = Ledger()
    async with working(declared, ledger.handle, uid="second") as worker:
        await order(declared, ControlCommand.DRAIN, uid="first")
        await accept(declared, "a")
        assert (await ended(declared, "a")).state is State.SUCCEEDED
        assert worker.state is WorkerState.READY
        await order(declared, ControlCommand.DRAIN, uid="second")
        await eventually(lambda: worker.state, equals(WorkerState.DRAINED))


@pytest.mark.parametrize(("own", "told"), [("", "first"), ("second", "")])
async def test_a_drain_order_counts_if_either_side_knows_no_uid(
    declared: Bus, own: str, told: str
) -> None:
    async with working(declared, Ledger().handle, uid=own) as worker:
        await accept(declared, "a")
        await ended(declared, "a")
        await order(declared, ControlCommand.DRAIN, uid=told)
        await eventually(lambda: worker.state, equals(WorkerState.DRAINED))


async def test_nothing_is_pulled_while_the_framework_is_unhealthy(declared: Bus) -> None:
    ledger = Ledger()
    await accept(declared, "a")
    async with working(declared, ledger.handle) as worker:
        await ended(declared, "a")
        worker._note_health("unwell")
        worker._framework.problem = unwell  # type: ignore[method-assign]  # whatever is listening
        await asyncio.sleep(0.2)
        assert worker.state is WorkerState.STARTING
        assert worker.not_ready == "framework: unwell"
        await accept(declared, "b")
        await asyncio.sleep(0.4)
    assert ledger.started == [("a", 1)]
    assert await left_in_stream(declared) == 1


async def unwell() -> str:
    return "unwell"


async def test_a_result_is_written_once_the_broker_is_back(own: Broker) -> None:
    ledger = Ledger()
    ledger.gate.clear()
    async with (
        bus(own.url, "back", ack_wait_seconds=10) as made,
        working(made, ledger.handle, ack_wait_seconds=10.0),
    ):
        await accept(made, "a")
        await eventually(lambda: ledger.starts)
        own.kill()
        ledger.gate.set()
        own.start()
        record = await ended(made, "a")
        await accept(made, "b")
        assert (await ended(made, "b")).state is State.SUCCEEDED
    assert record.state is State.SUCCEEDED
    assert ledger.started[0] == ("a", 1)


async def test_the_functions_status_code_reaches_the_record(declared: Bus) -> None:
    async with working(declared, lambda _: Answer(statusCode=404, body="nobody")):
        await accept(declared, "a")
        record = await ended(declared, "a")
    assert (record.state, record.statusCode, bytes(record.body)) == (
        State.SUCCEEDED,
        404,
        b'"nobody"',
    )
