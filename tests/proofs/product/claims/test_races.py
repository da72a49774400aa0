"""Callers that race each other and their own retries, with two replicas and one pool."""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from gpuruntime.models.kinds.claim_timing import GRACE_SECONDS
from tests.eventually import eventually_blocking
from tests.proofs.product.claims.concurrent_callers import (
    ConcurrentCallers,
    concurrent_callers,
    order,
    seed,
    source_of,
    units_of,
    wait_until_running,
    wait_until_sound,
)
from tests.proofs.product.conftest import Product, running
from tests.proofs.real_cluster.controlplane import ControlPlane
from tests.proofs.real_cluster.product import Answer, installation

pytestmark = pytest.mark.cluster

CALLERS = 64
POOL = 500
TOO_MANY = 30
REPLAYS = 0.1
RETRIES = 200
HANG_UPS = 40
LATEST_RETRY_SECONDS = 0.12
PAIRS = 16


@pytest.fixture(scope="module")
def races(cluster: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Product]:
    with installation(cluster, tmp_path_factory.mktemp("races"), "races") as made:
        yield running(made)


@pytest.fixture(autouse=True)
def sound_in_the_end(races: Product) -> Iterator[None]:
    yield
    wait_until_sound(races.caller)


async def to_both(
    callers: ConcurrentCallers, first: dict[str, Any], second: dict[str, Any]
) -> list[Answer]:
    """Send both requests at once, one to each replica."""
    async with asyncio.TaskGroup() as tasks:
        sent = [
            tasks.create_task(callers.claim(each, replica=replica))
            for replica, each in enumerate((first, second))
        ]
    return [each.result() for each in sent]


async def pairs_to_both(
    product: Product, pairs: list[tuple[dict[str, Any], dict[str, Any]]]
) -> list[list[Answer]]:
    async with concurrent_callers(product.apis) as callers:
        return [await to_both(callers, *pair) for pair in pairs]


def with_replays(
    orders: list[dict[str, Any]], rng: Random
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield each order with a replica; some are replays of a current or recent order."""
    for number, each in enumerate(orders):
        yield rng.randrange(2), each
        if rng.random() < REPLAYS:
            earlier = rng.randrange(max(0, number - 2 * CALLERS), number + 1)
            yield rng.randrange(2), orders[earlier]


async def test_callers_on_two_replicas_empty_a_pool_to_its_last_unit(
    races: Product, rng: Random
) -> None:
    seed(races.caller, "race.1", POOL)
    orders = [order(f"race-{number}", "race.1") for number in range(POOL + TOO_MANY)]
    sends = with_replays(orders, rng)
    answers: defaultdict[str, list[Answer]] = defaultdict(list)

    async def call(callers: ConcurrentCallers) -> None:
        for replica, each in sends:
            answers[each["name"]].append(await callers.claim(each, replica=replica))

    async with concurrent_callers(races.apis) as callers, asyncio.TaskGroup() as tasks:
        for _ in range(CALLERS):
            tasks.create_task(call(callers))

    everything = [each for some in answers.values() for each in some]
    refused = [each for each in everything if each.status not in (200, 201)]
    assert {(each.status, each.code) for each in refused} == {(409, "insufficient_capacity")}
    made = Counter(each.data["name"] for each in everything if each.status == 201)
    assert len(made) == POOL
    assert set(made.values()) == {1}
    for name in made:
        served = [each.data["sourceStock"] for each in answers[name] if each.status != 409]
        assert served == served[:1] * len(served)

    wait_until_running(races.caller, "race.1", POOL)
    units = units_of(races.made, "race.1", races.made.instance)
    assert {each["metadata"]["name"] for each in units} == set(made)
    assert len({source_of(each) for each in units}) == POOL
    assert units_of(races.made, "race.1", races.made.stock) == []


async def test_a_retry_to_the_other_replica_consumes_no_further_stock(
    races: Product, rng: Random
) -> None:
    seed(races.caller, "retry.1", RETRIES)

    async def sent_twice(number: int, seconds: float) -> list[Answer]:
        again = order(f"retry-{number}", "retry.1")
        async with asyncio.TaskGroup() as tasks:
            first = tasks.create_task(callers.claim(again, replica=number % 2))
            await asyncio.sleep(seconds)
            second = tasks.create_task(callers.claim(again, replica=1 - number % 2))
        return [first.result(), second.result()]

    async with concurrent_callers(races.apis) as callers:
        for number in range(RETRIES):
            both = await sent_twice(number, rng.uniform(0, LATEST_RETRY_SECONDS))
            assert sorted(each.status for each in both) == [200, 201]
            assert both[0].data["sourceStock"] == both[1].data["sourceStock"]

    wait_until_running(races.caller, "retry.1", RETRIES)
    units = units_of(races.made, "retry.1", races.made.instance)
    assert len({source_of(each) for each in units}) == len(units) == RETRIES


async def test_a_caller_that_hangs_up_and_asks_the_other_replica_gets_the_same_unit(
    races: Product, rng: Random
) -> None:
    seed(races.caller, "hung-up.1", HANG_UPS)
    async with concurrent_callers(races.apis) as callers:
        for number in range(HANG_UPS):
            again = order(f"hung-up-{number}", "hung-up.1")
            async with asyncio.TaskGroup() as tasks:
                first = tasks.create_task(callers.claim(again, replica=number % 2))
                await asyncio.sleep(rng.uniform(0, LATEST_RETRY_SECONDS))
                first.cancel()
            second = await callers.claim(again, replica=1 - number % 2)
            assert second.status in (200, 201)
    wait_until_running(races.caller, "hung-up.1", HANG_UPS)


async def test_one_operation_sent_to_both_replicas_at_once_creates_one_unit(
    races: Product,
) -> None:
    seed(races.caller, "twice.1", PAIRS)
    orders = [order(f"twice-{number}", "twice.1") for number in range(PAIRS)]
    answers = await pairs_to_both(races, [(each, each) for each in orders])
    for both in answers:
        assert sorted(each.status for each in both) == [200, 201]
        assert both[0].data["sourceStock"] == both[1].data["sourceStock"]
    wait_until_running(races.caller, "twice.1", PAIRS)


async def test_two_bodies_for_one_name_create_one_unit_and_one_conflict(races: Product) -> None:
    seed(races.caller, "bodies.1", 2 * PAIRS)
    orders = [order(f"bodies-{number}", "bodies.1") for number in range(PAIRS)]
    answers = await pairs_to_both(
        races, [(each, {**each, "image": "python:3.13"}) for each in orders]
    )
    for both in answers:
        made, refused = sorted(both, key=lambda each: each.status)
        assert (made.status, refused.status) == (201, 409)
        assert refused.code == "operation_conflict"
    wait_until_running(races.caller, "bodies.1", PAIRS)
    left = units_of(races.made, "bodies.1", races.made.stock)
    assert len(left) == PAIRS


async def test_of_two_names_under_one_operation_only_one_unit_starts(races: Product) -> None:
    seed(races.caller, "names.1", 2 * PAIRS)
    orders = [order(f"names-{number}", "names.1") for number in range(PAIRS)]
    answers = await pairs_to_both(
        races, [(each, {**each, "name": each["name"] + "-too"}) for each in orders]
    )
    made = [each.data["name"] for both in answers for each in both if each.status == 201]
    refused = [each for both in answers for each in both if each.status != 201]
    assert {each.code for each in refused} <= {"operation_conflict"}
    losers = len(made) - PAIRS

    wait_until_running(races.caller, "names.1", PAIRS)
    lost = races.caller.until(
        "/gpu-units?phase=Failed&specName=names.1", lambda units: len(units) == losers
    )
    assert {each["reason"] for each in lost} <= {"OperationConflict"}
    for each in lost:
        assert races.caller.delete(f"/gpu-units/{each['name']}").status == 204
    # The claim of a loser that is gone is freed once it has been doubted for the grace.
    races.caller.until(
        "/operator/jobs/stock-names.1",
        lambda job: job["ready"] == PAIRS,
        seconds=2 * GRACE_SECONDS,
    )


def test_two_long_names_with_a_common_beginning_have_separate_children(races: Product) -> None:
    seed(races.caller, "long.1", 2)
    names = [f"{'a' * 58}{end}" for end in ("-left", "right")]
    for name in names:
        assert races.caller.post("/gpu-units", order(name, "long.1")).status == 201
    wait_until_running(races.caller, "long.1", 2)
    views = [races.caller.get(f"/gpu-units/{name}").data for name in names]
    services = [each["serviceName"] for each in views]
    assert len(set(services)) == 2
    assert len({each["accessURL"] for each in views}) == 2
    behind = [pods_behind(races, each) for each in services]
    assert [len(each) for each in behind] == [1, 1]
    assert not behind[0] & behind[1]


def pods_behind(product: Product, service: str) -> set[str]:
    """Return the names of the Pods that are ready behind the Service, once there is one."""

    def ready() -> set[str]:
        slices = product.made.objects("endpointslices", product.made.instance)
        return {
            end["targetRef"]["name"]
            for each in slices
            if each["metadata"]["labels"]["kubernetes.io/service-name"] == service
            for end in each["endpoints"] or ()
            if end["conditions"]["ready"]
        }

    return eventually_blocking(ready)
