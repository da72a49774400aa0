"""Attempts exclude each other, run to their end and raise nothing in vain; calls are shared."""

import asyncio
import itertools
from collections.abc import Awaitable, Callable

import pytest
from structlog.testing import capture_logs

from gpuruntime.concurrency.single_flight import SharedCalls, SingleFlight

pytestmark = pytest.mark.looptime


class NameTakenError(Exception):
    pass


class StoppingError(Exception):
    pass


class UnknownOutcomeError(Exception):
    pass


def single_flight(tasks: asyncio.TaskGroup) -> SingleFlight:
    return SingleFlight(tasks, refused=StoppingError, unknown=UnknownOutcomeError)


def working(
    spans: list[tuple[float, float]], seconds: float = 1.0
) -> Callable[[], Awaitable[str]]:
    async def attempt() -> str:
        started = asyncio.get_running_loop().time()
        await asyncio.sleep(seconds)
        spans.append((started, asyncio.get_running_loop().time()))
        return "done"

    return attempt


async def failing() -> str:
    await asyncio.sleep(1)
    raise NameTakenError("taken")


async def test_attempts_of_one_operation_never_overlap() -> None:
    spans: list[tuple[float, float]] = []
    async with asyncio.TaskGroup() as tasks:
        attempts = single_flight(tasks)
        for _ in range(4):
            tasks.create_task(attempts.run("one", working(spans)))
    assert len(spans) == 4
    assert all(before[1] <= after[0] for before, after in itertools.pairwise(spans))


async def test_operations_do_not_wait_for_each_other() -> None:
    spans: list[tuple[float, float]] = []
    started = asyncio.get_running_loop().time()
    async with asyncio.TaskGroup() as tasks:
        attempts = single_flight(tasks)
        for number in range(4):
            tasks.create_task(attempts.run(str(number), working(spans)))
    assert asyncio.get_running_loop().time() - started == pytest.approx(1)


async def test_a_failure_is_raised_to_its_caller_and_not_to_the_role() -> None:
    async with asyncio.TaskGroup() as tasks:
        attempts = single_flight(tasks)
        with pytest.raises(NameTakenError):
            await attempts.run("one", failing)
        assert await attempts.run("one", working([])) == "done"


async def test_an_unexpected_error_is_raised_to_its_caller_and_not_to_the_role() -> None:
    async def broken() -> str:
        raise ZeroDivisionError

    async with asyncio.TaskGroup() as tasks:
        attempts = single_flight(tasks)
        with pytest.raises(ZeroDivisionError):
            await attempts.run("one", broken)


async def test_an_attempt_whose_caller_was_cancelled_runs_to_its_end() -> None:
    spans: list[tuple[float, float]] = []
    async with asyncio.TaskGroup() as tasks:
        attempts = single_flight(tasks)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5):
                await attempts.run("one", working(spans))
        await attempts.run("one", working(spans))
    assert [end - start for start, end in spans] == pytest.approx([1, 1])
    assert spans[0][1] <= spans[1][0]


async def test_a_failure_without_a_waiting_caller_is_logged() -> None:
    with capture_logs() as logs:
        async with asyncio.TaskGroup() as tasks:
            attempts = single_flight(tasks)
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.5):
                    await attempts.run("one", failing)
    assert [entry["operation"] for entry in logs] == ["one"]


async def test_a_cancelled_waiter_makes_no_attempt() -> None:
    spans: list[tuple[float, float]] = []
    async with asyncio.TaskGroup() as tasks:
        attempts = single_flight(tasks)
        first = tasks.create_task(attempts.run("one", working(spans)))
        await asyncio.sleep(0.1)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5):
                await attempts.run("one", working(spans))
        assert await first == "done"
    assert len(spans) == 1


async def test_an_attempt_cancelled_with_the_role_has_an_unknown_outcome() -> None:
    errors: list[Exception] = []

    async def call(attempts: SingleFlight) -> None:
        try:
            await attempts.run("one", working([]))
        except UnknownOutcomeError as error:
            errors.append(error)

    async def role(callers: asyncio.TaskGroup) -> None:
        async with asyncio.TaskGroup() as tasks:
            callers.create_task(call(single_flight(tasks)))
            await asyncio.sleep(0.5)
            raise asyncio.CancelledError

    async with asyncio.TaskGroup() as callers:
        callers.create_task(role(callers))
    assert len(errors) == 1


async def test_a_stopped_role_accepts_no_attempt() -> None:
    async with asyncio.TaskGroup() as tasks:
        attempts = single_flight(tasks)
    with pytest.raises(StoppingError):
        await attempts.run("one", working([]))


class Calls:
    """Count the calls. Each takes a second and returns its number or raises `error`."""

    def __init__(self, error: Exception | None = None) -> None:
        self.count = 0
        self._error = error

    async def __call__(self) -> int:
        self.count += 1
        number = self.count
        await asyncio.sleep(1)
        if self._error:
            raise self._error
        return number


async def join(calls: SharedCalls[int], key: str, call: Callable[[], Awaitable[int]]) -> int:
    """Wait for the call in flight, or lead one if there is none or it was cancelled."""
    while in_flight := calls.in_flight(key):
        await asyncio.wait([in_flight])
        if not in_flight.cancelled():
            return in_flight.result()
    return await calls.lead(key, call)


async def test_callers_of_one_key_share_one_result() -> None:
    calls, call = SharedCalls[int](NameTakenError), Calls()
    async with asyncio.TaskGroup() as tasks:
        joined = [tasks.create_task(join(calls, "a", call)) for _ in range(3)]
    assert [task.result() for task in joined] == [1, 1, 1]
    assert len(calls) == 0


async def test_calls_of_different_keys_run_at_the_same_time() -> None:
    calls, call = SharedCalls[int](NameTakenError), Calls()
    started = asyncio.get_running_loop().time()
    async with asyncio.TaskGroup() as tasks:
        for key in "abc":
            tasks.create_task(join(calls, key, call))
        await asyncio.sleep(0.5)
        assert len(calls) == 3
    assert asyncio.get_running_loop().time() - started == pytest.approx(1)


async def test_a_shared_error_reaches_every_caller() -> None:
    calls, call = SharedCalls[int](NameTakenError), Calls(NameTakenError("taken"))
    raised = []

    async def note() -> None:
        with pytest.raises(NameTakenError) as caught:
            await join(calls, "a", call)
        raised.append(caught.value)

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(note())
        tasks.create_task(note())
    assert len(raised) == 2
    assert call.count == 1


async def test_any_other_error_stays_with_its_caller_and_the_next_one_leads() -> None:
    calls, broken, call = SharedCalls[int](NameTakenError), Calls(ZeroDivisionError()), Calls()

    async def lead_a_broken_call() -> None:
        with pytest.raises(ZeroDivisionError):
            await join(calls, "a", broken)

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(lead_a_broken_call())
        await asyncio.sleep(0.5)
        second = tasks.create_task(join(calls, "a", call))
    assert second.result() == 1


async def test_a_waiting_caller_leads_when_the_leader_is_cancelled() -> None:
    calls, call = SharedCalls[int](NameTakenError), Calls()
    async with asyncio.TaskGroup() as tasks:
        leader = tasks.create_task(join(calls, "a", call))
        await asyncio.sleep(0.5)
        second = tasks.create_task(join(calls, "a", call))
        await asyncio.sleep(0)
        leader.cancel()
    assert second.result() == 2
