"""The claim protocol when requests or answers are lost, rejected, late or cancelled."""

import asyncio

import attrs
import pytest

from gpuruntime.models.kinds.units import GPU_UNITS
from gpuruntime.operations.operations import tombstones_of
from gpuruntime.operations.options import Options
from gpuruntime.strict.structure import StrictError
from gpuruntime.telemetry.metrics import Registry
from tests.faults import ANSWER_LOST, DROPPED, UNREACHABLE, Fault, landing_late, refused, slow
from tests.options import configured
from tests.rooms.operations.cluster import INSTANCE, STOCK, Cluster, Replica, order, replica, told
from tests.rooms.operations.units import active

pytestmark = pytest.mark.looptime

UNITS = GPU_UNITS.path(namespace=INSTANCE)


# Lost answers.


@pytest.mark.parametrize("number", [0, 1], ids=["the claim", "the create"])
@pytest.mark.parametrize(
    "fault", [ANSWER_LOST, refused(500, "InternalError")], ids=["answer lost", "500"]
)
async def test_a_write_whose_answer_was_lost_is_read_back(
    cluster: Cluster, number: int, fault: Fault
) -> None:
    cluster.add_stock(2)
    async with replica(cluster) as api:
        api.transport.on_write(number, fault)
        answer = await api.create(name="demo")
        if answer == "timeout":
            answer = await api.create(name="demo")
        assert answer == "201 demo"
    cluster.assert_sound()


async def test_a_create_that_may_still_land_keeps_its_claim(cluster: Cluster) -> None:
    cluster.add_stock(2)
    async with replica(cluster) as api:
        api.transport.on("POST", UNITS, landing_late(5))
        assert await api.create(name="demo") == "timeout"
        assert len(cluster.claimed) == 1
        await asyncio.sleep(6)
        assert await api.create(name="demo") == "200 demo"
    cluster.assert_sound()


async def test_a_retry_that_meets_its_late_create_takes_no_second_stock(cluster: Cluster) -> None:
    cluster.add_stock(2)
    async with replica(cluster) as api:
        api.transport.on("POST", UNITS, landing_late(0.01))
        assert await api.create(name="demo") == "timeout"
        api.transport.on("PATCH", "", slow(before=1))
        assert await api.create(name="demo") == "200 demo"
    cluster.assert_sound()


async def test_a_replay_whose_own_create_was_lost_is_still_reported_as_a_replay(
    cluster: Cluster,
) -> None:
    cluster.add_stock(1)
    async with replica(cluster) as first, replica(cluster, seed=2) as second:
        second.transport.hold_watches()
        assert await first.create(name="demo") == "201 demo"
        await asyncio.sleep(1)
        second.transport.on("POST", UNITS, DROPPED)
        assert await second.create(name="demo") == "200 demo"
    cluster.assert_sound()


async def test_a_claim_that_lands_late_is_found_by_the_next_attempt(cluster: Cluster) -> None:
    cluster.add_stock(1)
    async with replica(cluster) as api:
        api.transport.on("PATCH", "", landing_late(0.005))
        assert await api.create(name="demo") == "201 demo"
    cluster.assert_sound()


@pytest.mark.parametrize(
    "fault", [UNREACHABLE, refused(503, "ServiceUnavailable")], ids=["unreachable", "503"]
)
async def test_a_claim_that_was_not_made_changes_nothing(cluster: Cluster, fault: Fault) -> None:
    cluster.add_stock(1)
    async with replica(cluster) as api:
        api.transport.on("PATCH", "", fault)
        assert await api.create() == "service_unavailable"
        assert not cluster.claimed
        assert await api.create(name="demo") == "201 demo"
    cluster.assert_sound()


@pytest.mark.parametrize("fault", [DROPPED, UNREACHABLE], ids=["dropped", "unreachable"])
async def test_an_outage_during_the_create_is_reported_as_an_unknown_outcome(
    cluster: Cluster, fault: Fault
) -> None:
    cluster.add_stock(1)
    async with replica(cluster) as api:
        api.transport.on("POST", UNITS, fault)
        api.transport.on("GET", UNITS, UNREACHABLE)
        assert await api.create(name="demo") == "timeout"
        assert len(cluster.claimed) == 1
        assert await api.create(name="demo") == "201 demo"
    cluster.assert_sound()


# Rejections and releases.


@pytest.mark.parametrize(
    ("status", "reason", "code"),
    [
        (403, "Forbidden", "forbidden"),
        (429, "TooManyRequests", "too_many_requests"),
        (404, "NotFound", "service_unavailable"),
        (401, "Unauthorized", "service_unavailable"),
        (409, "Conflict", "service_unavailable"),
    ],
)
async def test_a_definite_rejection_of_the_create_releases_the_claim(
    cluster: Cluster, status: int, reason: str, code: str
) -> None:
    cluster.add_stock(1)
    async with replica(cluster) as api:
        api.transport.on("POST", UNITS, refused(status, reason))
        assert await api.create() == code
        assert not cluster.claimed
        assert (await api.create()).startswith("201")


async def test_a_rejection_by_the_clusters_own_rules_is_a_fault_of_the_request(
    cluster: Cluster,
) -> None:
    """An admission policy's denial is not an outage, so it must not alert an operator."""
    cluster.add_stock(1)
    meter = Registry()
    async with replica(cluster, meter=meter) as api:
        api.transport.on("POST", UNITS, refused(422, "Invalid"))
        with pytest.raises(StrictError):
            await api.create()
    assert not cluster.claimed
    counted = [line for line in meter.text().decode().splitlines() if "claims_total{" in line]
    assert [line for line in counted if not line.endswith(" 0.0")] == [
        'gpuruntime_claims_total{outcome="invalid_request"} 1.0'
    ]


async def test_a_release_that_fails_leaves_the_claim_to_its_grace(cluster: Cluster) -> None:
    cluster.add_stock(1)
    async with replica(cluster) as api:
        api.transport.on("POST", UNITS, refused(403, "Forbidden"))
        api.transport.on("PATCH", "", UNREACHABLE, skip=1)
        assert await api.create() == "forbidden"
    assert len(cluster.claimed) == 1


async def test_a_release_does_not_take_the_claim_from_an_attempt_that_uses_it_now(
    cluster: Cluster,
) -> None:
    cluster.add_stock(1)
    async with replica(cluster) as first, replica(cluster, seed=2) as second:
        first.transport.on("POST", UNITS, attrs.evolve(refused(403, "Forbidden"), after_seconds=2))
        async with asyncio.TaskGroup() as tasks:
            refusal = tasks.create_task(first.create(name="demo"))
            await asyncio.sleep(1)
            assert await second.create(name="demo") == "201 demo"
        assert refusal.result() == "forbidden"
    cluster.assert_sound()


async def test_an_attempt_never_releases_a_claim_that_it_did_not_make(cluster: Cluster) -> None:
    cluster.add_stock(1)
    async with replica(cluster) as api:
        api.transport.on("POST", UNITS, DROPPED)
        assert await api.create(name="demo") == "timeout"
        api.transport.on("POST", UNITS, refused(403, "Forbidden"))
        assert await api.create(name="demo") == "forbidden"
    assert len(cluster.claimed) == 1


async def test_a_create_is_not_sent_after_its_bound(cluster: Cluster) -> None:
    cluster.add_stock(1)
    async with replica(cluster) as api:
        api.transport.on("PATCH", "", slow(after=31))
        assert await api.create() == "service_unavailable"
        assert "POST" not in {each.method for each in api.transport.sent}
    assert not cluster.claimed


async def test_an_attempt_ends_in_time_if_the_server_hangs(cluster: Cluster) -> None:
    cluster.add_stock(1)
    async with replica(cluster, options=configured(Options, attempt_seconds=60)) as api:
        api.transport.on("PATCH", "", slow(before=1000))
        started = asyncio.get_running_loop().time()
        assert await api.create() == "timeout"
        assert asyncio.get_running_loop().time() - started == pytest.approx(60)


# Deleted operations.


async def test_an_operation_whose_unit_was_deleted_is_finished(cluster: Cluster) -> None:
    cluster.add_stock(2)
    async with replica(cluster) as api:
        await api.create(name="demo")
        api.transport.hold_watches()
        await api.inventory.units.delete("demo")
        written = len(api.transport.written())
        assert await api.create(name="demo") == "operation_finished"
        assert len(api.transport.written()) == written
        api.transport.release_watches()
        await asyncio.sleep(1)
        assert await api.create(name="demo") == "operation_finished"
    assert cluster.units == []


async def delete_and_bring_back(cluster: Cluster, api: Replica) -> None:
    """Restore a deleted unit, as a create that lands after the deletion does."""
    [unit] = cluster.units
    await api.inventory.units.delete(unit["metadata"]["name"])
    kept = ("name", "namespace", "labels", "annotations")
    metadata = {name: unit["metadata"][name] for name in kept}
    cluster.call("POST", UNITS, {**unit, "metadata": metadata, "status": {}})


async def test_a_unit_restored_by_a_late_create_is_not_the_answer(
    cluster: Cluster,
) -> None:
    cluster.add_stock(2)
    async with replica(cluster) as api:
        await api.create(name="demo")
        await delete_and_bring_back(cluster, api)
        await asyncio.sleep(1)
        assert await api.create(name="demo") == "operation_finished"


async def test_a_unit_restored_by_a_late_create_is_not_the_answer_if_no_stock_is_left(
    cluster: Cluster,
) -> None:
    cluster.add_stock(1)
    async with replica(cluster) as api, replica(cluster, seed=2) as blind:
        blind.transport.hold_watches()
        await api.create(name="demo")
        await delete_and_bring_back(cluster, api)
        cluster.call("DELETE", GPU_UNITS.path(namespace=STOCK, name="p-1"))
        assert await blind.create(name="demo") == "operation_finished"


async def test_a_unit_restored_by_a_late_create_is_not_the_answer_if_an_attempt_starts_over(
    cluster: Cluster,
) -> None:
    cluster.add_stock(1)
    async with (
        replica(cluster) as crashed,
        replica(cluster, seed=2) as slow_one,
        replica(cluster, seed=3) as api,
    ):
        crashed.transport.on("PATCH", "", Fault(then=crashed.transport.cut))
        await crashed.create(name="demo")
        await asyncio.sleep(1)
        slow_one.transport.hold_watches()
        slow_one.transport.on("PATCH", "", slow(before=5))
        async with asyncio.TaskGroup() as tasks:
            asked = tasks.create_task(slow_one.create(name="demo"))
            await asyncio.sleep(1)
            assert await api.create(name="demo") == "201 demo"
            await delete_and_bring_back(cluster, api)
        assert asked.result() == "operation_finished"


async def test_a_late_replay_at_a_fresh_replica_releases_its_claim(cluster: Cluster) -> None:
    cluster.add_stock(2)
    async with replica(cluster) as api:
        await api.create("one", name="demo")
        await api.inventory.units.delete("demo")
        cluster.call("DELETE", GPU_UNITS.path(namespace=STOCK, name="p-1"))
        cluster.call("DELETE", GPU_UNITS.path(namespace=STOCK, name="p-2"))
        cluster.add_stock(1, pool="q")
    async with replica(cluster, seed=2) as fresh:
        assert await fresh.create("one", name="demo") == "operation_finished"
    assert cluster.units == cluster.claimed == []


async def test_a_claim_of_a_finished_operation_is_left_to_its_grace(cluster: Cluster) -> None:
    cluster.add_stock(2)
    async with replica(cluster) as crashed, replica(cluster, seed=2) as api:
        crashed.transport.on("PATCH", "", Fault(then=crashed.transport.cut))
        await crashed.create("one", name="demo")
        await asyncio.sleep(1)
        await tombstones_of(api.context).write("GPUUnit", active(operation="one"))
        api.transport.sent.clear()
        assert await api.create("one", name="demo") == "operation_finished"
        assert api.transport.written() == []
    assert len(cluster.claimed) == 1


async def test_an_unreadable_tombstone_releases_the_claim(cluster: Cluster) -> None:
    cluster.add_stock(1)
    async with replica(cluster) as api:
        api.transport.on("GET", "configmaps", refused(503, "ServiceUnavailable"))
        assert await api.create() == "service_unavailable"
    assert not cluster.claimed


async def test_missing_stock_is_not_reported_if_the_tombstone_could_not_be_read(
    cluster: Cluster,
) -> None:
    async with replica(cluster) as api:
        api.transport.on("GET", "configmaps", refused(503, "ServiceUnavailable"))
        assert await api.create() == "service_unavailable"
        assert await api.create() == "insufficient_capacity"


# Callers that disconnect.


@pytest.mark.parametrize("seconds", [0.0005, 0.0015, 0.0025, 0.0035])
async def test_an_attempt_ends_although_its_caller_disconnected(
    cluster: Cluster, seconds: float
) -> None:
    cluster.add_stock(1)
    async with replica(cluster) as api:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(seconds):
                await told(api.inventory, order("one", name="demo"))
        await asyncio.sleep(1)
        assert await api.create("one", name="demo") == "200 demo"
    cluster.assert_sound()
