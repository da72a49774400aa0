"""Workers reconcile keys one at a time, and each outcome decides about the requeue."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from itertools import permutations

import pytest
import structlog

from gpuruntime.controller.controller import DONE, Controller, Result, gravest, retry_after_seconds
from gpuruntime.errors import TerminalError
from gpuruntime.kube.errors import ConflictError, ThrottledError, UnreachableError
from gpuruntime.meter import NullMeter
from gpuruntime.models.kubernetes.metadata import Key
from gpuruntime.workqueue.queue import WorkQueue

pytestmark = pytest.mark.looptime(idle_timeout=5)

Reconcile = Callable[[Key], Awaitable[Result]]
A, B = Key("n", "a"), Key("n", "b")


class CountingMeter(NullMeter):
    def __init__(self) -> None:
        self.counts: Counter[tuple[str, ...]] = Counter()
        self.observed: dict[str, list[float]] = {}

    def count(self, name: str, amount: float = 1, /, **labels: str) -> None:
        self.counts[name, *labels.values()] += int(amount)

    def observe(self, name: str, seconds: float, /, **labels: str) -> None:  # noqa: ARG002
        self.observed.setdefault(name, []).append(seconds)


class Script:
    """A reconcile with scripted outcomes, which records when it was called."""

    def __init__(self, *outcomes: Result | Exception) -> None:
        self._outcomes = list(outcomes)
        self.called_at: list[float] = []

    async def __call__(self, key: Key) -> Result:  # noqa: ARG002
        self.called_at.append(asyncio.get_running_loop().time())
        outcome = self._outcomes.pop(0) if self._outcomes else DONE
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    @property
    def waits(self) -> list[float]:
        return [
            round(later - sooner, 4)
            for sooner, later in zip(self.called_at, self.called_at[1:], strict=False)
        ]


@asynccontextmanager
async def running(
    reconcile: Reconcile, *, workers: int = 1, meter: CountingMeter | None = None
) -> AsyncIterator[WorkQueue[Key]]:
    queue: WorkQueue[Key] = WorkQueue("things")
    controller = Controller(
        "things", queue, reconcile, workers=workers, meter=meter or CountingMeter()
    )
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(controller.run())
        yield queue
        task.cancel()


@pytest.fixture(autouse=True)
def _every_level_is_logged() -> None:
    structlog.reset_defaults()


def test_a_result_without_a_time_is_done() -> None:
    assert Result() == DONE


async def test_a_done_key_is_not_requeued() -> None:
    script = Script()
    async with running(script) as queue:
        queue.add(A)
        await asyncio.sleep(10_000)

    assert len(script.called_at) == 1


async def test_a_key_is_requeued_after_the_time_in_its_result() -> None:
    script = Script(Result(requeue_after_seconds=30))
    async with running(script) as queue:
        queue.add(A)
        await asyncio.sleep(10_000)

    assert script.waits == [30]


@pytest.mark.parametrize(
    "error",
    [ConflictError("stale"), UnreachableError("no route"), ValueError("a bug")],
    ids=["conflict", "cluster error", "bug"],
)
async def test_errors_in_a_row_back_off(error: Exception) -> None:
    script = Script(error, error, error)
    async with running(script) as queue:
        queue.add(A)
        await asyncio.sleep(10_000)

    assert script.waits == [0.005, 0.01, 0.02]


@pytest.mark.parametrize(
    "success", [DONE, Result(requeue_after_seconds=60)], ids=["done", "requeued"]
)
async def test_a_success_resets_the_back_off(success: Result) -> None:
    script = Script(ValueError(), ValueError(), success, ValueError())
    async with running(script) as queue:
        queue.add(A)
        await asyncio.sleep(30)
        queue.add(A)
        await asyncio.sleep(10_000)

    assert script.waits[-1] == 0.005


async def test_a_terminal_error_is_not_retried_until_the_object_changes() -> None:
    script = Script(ValueError(), TerminalError("bad spec"), ValueError())
    async with running(script) as queue:
        queue.add(A)
        await asyncio.sleep(10_000)
        assert len(script.called_at) == 2
        queue.add(A)
        await asyncio.sleep(10_000)

    assert script.waits[2:] == [0.005]


async def test_a_throttled_key_waits_as_long_as_the_server_asks() -> None:
    script = Script(ThrottledError("slow down", retry_after_seconds=7))
    async with running(script) as queue:
        queue.add(A)
        await asyncio.sleep(10_000)

    assert script.waits == [7]


async def test_a_group_of_errors_is_judged_by_its_leaves() -> None:
    stale = ExceptionGroup("tasks", [ConflictError("a"), ConflictError("b")])
    meter = CountingMeter()
    async with running(Script(stale), meter=meter) as queue:
        queue.add(A)
        await asyncio.sleep(1)

    assert meter.counts["reconciles_total", "things", "conflict"] == 1


@pytest.mark.parametrize(
    ("error", "level", "has_traceback"),
    [
        (ConflictError("told"), "debug", False),
        (TerminalError("told"), "warning", False),
        (UnreachableError("told"), "warning", False),
        (ExceptionGroup("tasks", [UnreachableError("told")]), "warning", False),
        (ValueError("told"), "error", True),
    ],
    ids=["conflict", "terminal error", "cluster error", "group of errors", "bug"],
)
async def test_every_error_is_logged_with_its_key(
    error: Exception, level: str, has_traceback: bool
) -> None:
    merge = structlog.contextvars.merge_contextvars
    with structlog.testing.capture_logs(processors=[merge]) as lines:
        async with running(Script(error)) as queue:
            queue.add(A)
            await asyncio.sleep(1)

    (line,) = lines
    assert (line["log_level"], line["controller"], line["key"]) == (level, "things", "n/a")
    assert line["exc_info"] is error if has_traceback else line["error"] == "told"


async def test_log_lines_of_a_reconcile_carry_its_own_key_only() -> None:
    async def reconcile(key: Key) -> Result:
        await asyncio.sleep(1)
        structlog.get_logger().info("seen", expected=str(key))
        return DONE

    merge = structlog.contextvars.merge_contextvars
    with structlog.testing.capture_logs(processors=[merge]) as lines:
        async with running(reconcile, workers=2) as queue:
            queue.add(A)
            queue.add(B)
            await asyncio.sleep(10)

    assert [line["key"] for line in lines] == [line["expected"] for line in lines]
    assert len(lines) == 2


async def test_keys_are_reconciled_concurrently_but_no_key_twice_at_once() -> None:
    in_hand: Counter[Key] = Counter()
    most: Counter[Key | str] = Counter()

    async def reconcile(key: Key) -> Result:
        in_hand[key] += 1
        most[key] = max(most[key], in_hand[key])
        most["together"] = max(most["together"], in_hand.total())
        await asyncio.sleep(1)
        in_hand[key] -= 1
        return DONE

    async with running(reconcile, workers=3) as queue:
        for _ in range(20):
            queue.add(A)
            queue.add(B)
            await asyncio.sleep(0.3)
        await asyncio.sleep(10)

    assert most == {A: 1, B: 1, "together": 2}


async def test_a_foreign_cancellation_fails_the_reconcile_and_keeps_the_worker() -> None:
    abandoned: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    abandoned.cancel()
    calls = 0

    async def reconcile(key: Key) -> Result:  # noqa: ARG001
        nonlocal calls
        calls += 1
        if calls == 1:
            await abandoned
        return DONE

    async with running(reconcile) as queue:
        queue.add(A)
        await asyncio.sleep(1)

    assert calls == 2


async def test_reconciles_that_never_await_do_not_block_the_loop() -> None:
    served: list[Key] = []

    async def reconcile(key: Key) -> Result:
        served.append(key)
        return DONE

    async with running(reconcile) as queue:
        for number in range(1_000):
            queue.add(Key("n", str(number)))
        for _ in range(10):
            await asyncio.sleep(0)

    assert 0 < len(served) <= 10


async def test_drain_finishes_keys_in_progress_and_takes_no_more() -> None:
    finished: list[Key] = []

    async def reconcile(key: Key) -> Result:
        await asyncio.sleep(5)
        finished.append(key)
        return Result(requeue_after_seconds=1)

    queue: WorkQueue[Key] = WorkQueue("things")
    controller = Controller("things", queue, reconcile, workers=1)
    queue.add(A)
    queue.add(B)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(controller.run())
        await asyncio.sleep(1)
        await controller.drain()
        assert finished == [A]


async def test_a_controller_that_never_ran_drains_at_once() -> None:
    controller = Controller("things", WorkQueue[Key]("things"), Script(), workers=1)

    await controller.drain()
    await controller.run()


async def test_cancellation_ends_reconciles_in_progress() -> None:
    was_cancelled = False

    async def reconcile(key: Key) -> Result:  # noqa: ARG001
        nonlocal was_cancelled
        try:
            await asyncio.sleep(100)
        except asyncio.CancelledError:
            was_cancelled = True
            raise
        return DONE

    async with running(reconcile) as queue:
        queue.add(A)
        await asyncio.sleep(1)

    assert was_cancelled


async def test_reconciles_are_counted_by_outcome_and_timed() -> None:
    meter = CountingMeter()
    script = Script(
        Result(requeue_after_seconds=1), ConflictError(""), UnreachableError(""), ValueError(""),
        TerminalError(""), DONE,
    )  # fmt: skip
    async with running(script, meter=meter) as queue:
        queue.add(A)
        await asyncio.sleep(10)
        queue.add(A)
        await asyncio.sleep(10)

    outcomes = ["requeued", "conflict", "cluster_error", "failed", "terminal", "done"]
    assert [meter.counts["reconciles_total", "things", outcome] for outcome in outcomes] == [1] * 6
    assert len(meter.observed["reconcile_seconds"]) == 6


BY_GRAVITY = [
    TerminalError("bad spec"),
    ConflictError("stale"),
    UnreachableError("no route"),
    ValueError("a bug"),
]


@pytest.mark.parametrize(
    "error", BY_GRAVITY, ids=["terminal error", "conflict", "cluster error", "bug"]
)
def test_a_single_error_decides(error: Exception) -> None:
    assert gravest(error) is error
    assert gravest(ExceptionGroup("", [ExceptionGroup("", [error])])) is error


@pytest.mark.parametrize("count", [2, 3, 4])
def test_the_order_within_a_group_does_not_matter(count: int) -> None:
    for errors in permutations(BY_GRAVITY[:count]):
        assert gravest(ExceptionGroup("", errors)) is BY_GRAVITY[count - 1]


def test_the_longest_retry_after_of_a_group_is_used() -> None:
    throttled = [
        ThrottledError("", retry_after_seconds=2),
        ThrottledError("", retry_after_seconds=5),
        ThrottledError("", retry_after_seconds=None),
        UnreachableError(""),
    ]

    assert retry_after_seconds(ExceptionGroup("", throttled)) == 5


def test_errors_without_retry_after_ask_for_no_wait() -> None:
    assert retry_after_seconds(UnreachableError("")) == 0
    assert retry_after_seconds(ThrottledError("")) == 0
