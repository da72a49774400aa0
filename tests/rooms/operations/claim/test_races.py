"""Claims of many callers at two replicas whose caches lag, with crashes at every write."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from random import Random

import pytest

from gpuruntime.meter import Meter, NullMeter
from gpuruntime.models.kinds import labels
from tests.faults import ANSWER_LOST, DROPPED, Fault, around, landing_late, refused, slow
from tests.rooms.operations.cluster import Cluster, Replica, notes, replica

pytestmark = pytest.mark.looptime

# The writes of a POST for a unit: the claim's PATCH and the unit's POST.
WRITES = (0, 1)


@asynccontextmanager
async def two_replicas(
    cluster: Cluster, seed: int, meter: Meter = NullMeter()
) -> AsyncIterator[tuple[Replica, Replica]]:
    lag = around(Random(seed), 0.005)
    async with (
        replica(cluster, seed=seed, latency=lag, watch_lag=lag, meter=meter) as one,
        replica(cluster, seed=seed + 100, latency=lag, watch_lag=lag, meter=meter) as two,
    ):
        yield one, two


class Conflicts:
    """A Meter that only counts how often a claim met the claim of another operation."""

    def __init__(self) -> None:
        self.total = 0.0

    def count(self, name: str, amount: float = 1, /, **labels: str) -> None:
        if name == "inventory_claim_conflicts_total" and labels["seen"] != "Reusable":
            self.total += amount

    def gauge(self, name: str, value: float, /, **labels: str) -> None:
        pass

    def observe(self, name: str, seconds: float, /, **labels: str) -> None:
        pass


async def sent_by(
    callers: int, replicas: tuple[Replica, ...], operations: Iterable[str]
) -> Counter[str]:
    """Send one operation after another until none is left, and return the answers."""
    told: Counter[str] = Counter()
    waiting = iter(enumerate(operations))

    async def call() -> None:
        for number, operation in waiting:
            answer = await replicas[number % len(replicas)].create(operation)
            told[answer.split()[0]] += 1

    async with asyncio.TaskGroup() as tasks:
        for _ in range(callers):
            tasks.create_task(call())
    return told


@pytest.mark.parametrize("seed", [1, 2])
async def test_callers_that_empty_a_pool_each_get_a_unit_with_few_conflicts(
    cluster: Cluster, seed: int
) -> None:
    cluster.add_stock(500)
    meter = Conflicts()
    operations = [f"op.{number}" for number in range(550)]
    rng = Random(seed)
    with_replays = [each for each in operations for _ in range(1 + (rng.random() < 0.1))]
    async with two_replicas(cluster, seed, meter) as replicas:
        told = await sent_by(64, replicas, with_replays)
    assert told["201"] == 500
    assert set(told) == {"201", "200", "insufficient_capacity"}
    cluster.assert_sound()
    assert meter.total / 500 < 0.05


@pytest.mark.parametrize("seed", range(5))
async def test_replicas_that_see_the_marks_of_each_other_hardly_conflict(
    cluster: Cluster, seed: int
) -> None:
    cluster.add_stock(150)
    meter = Conflicts()
    async with two_replicas(cluster, seed, meter) as replicas:
        told = await sent_by(64, replicas, [f"op.{number}" for number in range(200)])
    assert told == {"201": 150, "insufficient_capacity": 50}
    assert meter.total / 150 < 0.03


@pytest.mark.parametrize("seed", range(10))
async def test_one_request_sent_to_both_replicas_at_once_makes_one_unit(
    cluster: Cluster, seed: int
) -> None:
    cluster.add_stock(3)
    async with two_replicas(cluster, seed) as (one, two), asyncio.TaskGroup() as tasks:
        calls = [tasks.create_task(each.create(name="demo")) for each in (one, two, one)]
    assert sorted(call.result() for call in calls) == ["200 demo", "200 demo", "201 demo"]
    cluster.assert_sound()


@pytest.mark.parametrize("seed", range(10))
async def test_two_requests_of_one_operation_at_once_never_share_a_unit_or_a_stock(
    cluster: Cluster, seed: int
) -> None:
    cluster.add_stock(3)
    async with two_replicas(cluster, seed) as (one, two), asyncio.TaskGroup() as tasks:
        first = tasks.create_task(one.create(name="first"))
        second = tasks.create_task(two.create(name="second"))
    told = {first.result(), second.result()}
    assert told in (
        {"201 first", "operation_conflict"},
        {"201 second", "operation_conflict"},
    )
    cluster.assert_sound()


@pytest.mark.parametrize("seed", range(10))
async def test_two_requests_for_one_name_at_once_leave_one_unit_and_no_claim(
    cluster: Cluster, seed: int
) -> None:
    cluster.add_stock(3)
    async with two_replicas(cluster, seed) as (one, two), asyncio.TaskGroup() as tasks:
        first = tasks.create_task(one.create("one", name="demo"))
        second = tasks.create_task(two.create("two", name="demo"))
    assert {first.result(), second.result()} == {"201 demo", "name_taken"}
    cluster.assert_sound()


async def test_an_honest_retry_at_the_other_replica_never_takes_a_second_stock(
    cluster: Cluster,
) -> None:
    cluster.add_stock(200)
    rng = Random(5)
    async with two_replicas(cluster, 5) as (one, two), asyncio.TaskGroup() as tasks:
        for number in range(200):
            operation = f"op.{number}"
            first = tasks.create_task(one.create(operation, name=f"n-{number}"))
            await asyncio.sleep(rng.uniform(0, 0.12))
            retried = await two.create(operation, name=f"n-{number}")
            assert {(await first)[:3], retried[:3]} <= {"201", "200"}
            cluster.assert_sound()


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("is_done", [True, False], ids=["after", "before"])
@pytest.mark.parametrize("delay", [0.0, 0.003, 1.0])
async def test_a_retry_at_the_other_replica_completes_an_attempt_that_crashed(
    cluster: Cluster, write: int, is_done: bool, delay: float
) -> None:
    cluster.add_stock(3)
    async with two_replicas(cluster, 3) as (one, two):
        crash = Fault(then=one.transport.cut, is_dropped=not is_done)
        one.transport.on_write(write, crash)
        assert await one.create(name="demo") in {"timeout", "service_unavailable"}
        await asyncio.sleep(delay)
        assert (await two.create(name="demo"))[4:] == "demo"
    cluster.assert_sound()


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize(
    "fault",
    [ANSWER_LOST, DROPPED, landing_late(0.02), landing_late(3), slow(before=2, after=2)],
    ids=["answer lost", "dropped", "late by 20 ms", "late by 3 s", "slow"],
)
async def test_a_retry_after_any_lost_write_uses_one_stock_unit(
    cluster: Cluster, write: int, fault: Fault
) -> None:
    cluster.add_stock(3)
    async with two_replicas(cluster, 4) as (one, two):
        one.transport.on_write(write, fault)
        await one.create(name="demo")
        assert (await two.create(name="demo"))[4:] == "demo"
        await asyncio.sleep(5)
        assert await one.create(name="demo") == "200 demo"
    strays = len(cluster.claimed) - 1
    # a claim that lands after its caller moved to the other replica waits for its grace
    assert strays <= 1
    cluster.assert_sound(strays=strays)


async def storm(replicas: tuple[Replica, ...], rng: Random, operations: list[str]) -> None:
    """Inject faults now and then; a caller without a definite answer sends its request again."""
    faults = [ANSWER_LOST, DROPPED, landing_late(0.5), refused(503, "ServiceUnavailable")]

    async def call(operation: str) -> None:
        for attempt in range(20):
            answer = await rng.choice(replicas).create(operation, name=f"n-{operation}")
            if answer.split()[0] in {"200", "201"}:
                return
            assert answer in {"timeout", "service_unavailable", "insufficient_capacity"}
            await asyncio.sleep(rng.uniform(0, 0.1 * attempt))
        raise AssertionError(f"{operation} never came to an end")

    for each in replicas:
        for _ in range(len(operations)):
            each.transport.on("POST|PATCH|GET", "", rng.choice(faults), skip=rng.randrange(40))
    async with asyncio.TaskGroup() as tasks:
        for operation in operations:
            tasks.create_task(call(operation))


@pytest.mark.parametrize("seed", range(12))
async def test_each_operation_ends_with_one_unit_of_its_own_under_random_faults(
    cluster: Cluster, seed: int
) -> None:
    cluster.add_stock(60)
    rng = Random(seed)
    operations = [f"op-{number}"[3:] for number in range(12)]
    async with two_replicas(cluster, seed) as replicas:
        await storm(replicas, rng, operations)
        await asyncio.sleep(5)
    assert sorted(notes(unit)[labels.OPERATION_ID] for unit in cluster.units) == sorted(operations)
    cluster.assert_sound(strays=len(cluster.claimed) - len(operations))
