"""StockClaims as the API and the manager use it."""

import asyncio
from contextlib import suppress

import attrs
import pytest
import structlog

from gpuruntime.kube.errors import ForbiddenError, OutcomeUnknownError
from gpuruntime.models.kinds import labels
from gpuruntime.models.kinds.envelopes import envelope_of
from gpuruntime.models.kinds.units import GPU_UNITS, GPUUnitSpec
from gpuruntime.operations.claim.plan import Claim, ClaimRequest
from gpuruntime.operations.claim.stock import HEAD, MOST_REFUSALS, PATIENCE_SECONDS, StockClaims
from gpuruntime.operations.operations import stock_claims_of
from tests.faults import ANSWER_LOST, DROPPED, UNREACHABLE, Fault, refused, slow
from tests.rooms.operations.cluster import STOCK, Cluster, Replica, notes, replica
from tests.rooms.operations.units import claim_request

pytestmark = pytest.mark.looptime

FOR_EVER = 10**9
REFUSALS = {
    "full annotations": refused(422, "Invalid"),
    "an odd request": refused(400, "BadRequest"),
    "an admission policy": refused(403, "Forbidden"),
}


def claims_of(api: Replica) -> StockClaims:
    return stock_claims_of(api.context)


async def claimed_by(stock: StockClaims, want: ClaimRequest) -> Claim:
    claim = await stock.claim(want)
    assert claim
    return claim


async def test_a_claim_of_one_envelope_takes_no_other(cluster: Cluster) -> None:
    cluster.add_stock(3, pool="small", memory="8Gi")
    cluster.add_stock(1, pool="large", memory="16384Mi")
    envelope = envelope_of(GPUUnitSpec(specName="g1.1", memory="16Gi", gpu=1))
    async with replica(cluster) as api:
        stock = claims_of(api)
        want = claim_request(envelope=envelope)
        assert (await claimed_by(stock, want)).stock.spec.memory == "16384Mi"
        assert await stock.claim(attrs.evolve(want, operation_id="two")) is None
    assert len(cluster.claimed) == 1


async def test_stock_with_the_wanted_image_is_claimed_first(cluster: Cluster) -> None:
    cluster.add_stock(5, image="other")
    cluster.add_stock(1, pool="warm", image="python")
    async with replica(cluster) as api:
        claim = await claimed_by(claims_of(api), claim_request(image="python"))
        assert claim.stock.spec.image == "python"


async def test_stock_with_the_image_is_found_behind_any_amount_of_other_stock(
    cluster: Cluster,
) -> None:
    cluster.add_stock(HEAD + 10, image="other")
    cluster.add_stock(1, pool="warm", image="python")
    async with replica(cluster) as api:
        claim = await claimed_by(claims_of(api), claim_request(image="python"))
        assert claim.stock.spec.image == "python"


async def test_callers_of_one_process_never_try_the_same_stock(cluster: Cluster) -> None:
    cluster.add_stock(30)
    async with replica(cluster) as api, asyncio.TaskGroup() as tasks:
        stock = claims_of(api)
        for number in range(30):
            tasks.create_task(claimed_by(stock, claim_request(operation_id=f"op.{number}")))
    patched = [each for each in api.transport.sent if each.method == "PATCH"]
    assert len({each.path for each in patched}) == len(patched) == 30


async def test_a_released_claim_can_be_made_again(cluster: Cluster) -> None:
    cluster.add_stock(1)
    async with replica(cluster) as api:
        stock = claims_of(api)
        await stock.release(await claimed_by(stock, claim_request()))
        assert notes(cluster.free[0]) == {}
        assert (await claimed_by(stock, claim_request(operation_id="two"))).is_owned


async def test_a_restamped_claim_is_not_released_by_the_attempt_that_made_it(
    cluster: Cluster,
) -> None:
    cluster.add_stock(1)
    async with replica(cluster) as api:
        stock = claims_of(api)
        claim = await claimed_by(stock, claim_request())
        again = await stock.restamp(claim.stock, claim_request())
        assert again
        await stock.release(claim)
        await stock.release(again)
    assert len(cluster.claimed) == 1


async def test_a_claim_for_another_operation_is_not_restamped(cluster: Cluster) -> None:
    cluster.add_stock(1)
    async with replica(cluster) as api, replica(cluster, seed=2) as other:
        mine, theirs = claims_of(api), claims_of(other)
        claim = await claimed_by(mine, claim_request())
        await mine.release(claim)
        await claimed_by(theirs, claim_request(operation_id="two"))
        assert await mine.restamp(claim.stock, claim_request()) is None
    assert notes(cluster.claimed[0])[labels.OPERATION_ID] == "two"


async def test_a_claim_whose_answer_was_lost_is_owned(cluster: Cluster) -> None:
    cluster.add_stock(1)
    async with replica(cluster) as api:
        stock = claims_of(api)
        api.transport.on("PATCH", "", ANSWER_LOST)
        claim = await claimed_by(stock, claim_request())
        assert claim.is_owned
        await stock.release(claim)
    assert not cluster.claimed


async def test_a_lost_claim_that_cannot_be_read_raises_the_error_of_its_patch(
    cluster: Cluster,
) -> None:
    cluster.add_stock(1)
    async with replica(cluster) as api:
        api.transport.on("PATCH", "", DROPPED)
        api.transport.on("GET", "p-1", UNREACHABLE)
        with pytest.raises(OutcomeUnknownError):
            await claims_of(api).claim(claim_request())


async def test_a_claim_counts_from_before_it_was_sent(cluster: Cluster) -> None:
    cluster.add_stock(1)
    async with replica(cluster) as api:
        api.transport.on("PATCH", "", slow(before=3, after=4))
        started = asyncio.get_running_loop().time()
        assert (await claimed_by(claims_of(api), claim_request())).sent_at == started


async def test_a_claim_waits_for_stock_that_is_about_to_be_released(cluster: Cluster) -> None:
    cluster.add_stock(2)
    async with replica(cluster) as api:
        stock = claims_of(api)
        first = await claimed_by(stock, claim_request())
        path = GPU_UNITS.path(namespace=STOCK, name=cluster.free[0]["metadata"]["name"])
        marks = notes(cluster.claimed[0])
        cluster.call("PATCH", path, {"metadata": {"annotations": marks}})
        asyncio.get_running_loop().call_later(
            0.5,
            lambda: cluster.call(
                "PATCH", path, {"metadata": {"annotations": dict.fromkeys(marks)}}
            ),
        )
        second = await claimed_by(stock, claim_request(operation_id="two"))
        assert second.stock.metadata.uid != first.stock.metadata.uid


async def test_a_claim_does_not_wait_long_for_stock_that_is_never_released(
    cluster: Cluster,
) -> None:
    cluster.add_stock(2)
    async with replica(cluster) as api:
        stock = claims_of(api)
        await claimed_by(stock, claim_request())
        path = GPU_UNITS.path(namespace=STOCK, name=cluster.free[0]["metadata"]["name"])
        cluster.call("PATCH", path, {"metadata": {"annotations": notes(cluster.claimed[0])}})
        started = asyncio.get_running_loop().time()
        assert await stock.claim(claim_request(operation_id="two")) is None
        waited = asyncio.get_running_loop().time() - started
        assert waited == pytest.approx(PATIENCE_SECONDS, abs=0.2)


@pytest.mark.parametrize("fault", REFUSALS.values(), ids=REFUSALS)
async def test_stock_that_rejects_its_claim_is_skipped_and_logged(
    cluster: Cluster, fault: Fault
) -> None:
    cluster.add_stock(2)
    async with replica(cluster) as api:
        stock = claims_of(api)
        first = await claimed_by(stock, claim_request())
        await stock.release(first)
        name = first.stock.metadata.name
        api.transport.on("PATCH", name, fault, times=FOR_EVER)
        with structlog.testing.capture_logs() as logs:
            second = await claimed_by(stock, claim_request())
        assert second.stock.metadata.name != name
    assert [(each["event"], each["stock"]) for each in logs] == [
        ("stock refuses its claim", f"{STOCK}/{name}")
    ]


@pytest.mark.parametrize("fault", REFUSALS.values(), ids=REFUSALS)
async def test_stock_that_rejects_its_claim_is_tried_once(cluster: Cluster, fault: Fault) -> None:
    cluster.add_stock(3)
    async with replica(cluster) as api:
        api.transport.on("PATCH", "", fault, times=FOR_EVER)
        with suppress(ForbiddenError):
            await claims_of(api).claim(claim_request())
        tried = api.transport.written()
    assert len(set(tried)) == len(tried) == 3


async def test_there_is_no_stock_if_each_unit_rejects_its_claim(cluster: Cluster) -> None:
    cluster.add_stock(2)
    async with replica(cluster) as api:
        api.transport.on("PATCH", "", refused(422, "Invalid"), times=FOR_EVER)
        assert await claims_of(api).claim(claim_request()) is None
        assert await api.create() == "insufficient_capacity"


async def test_a_missing_right_is_not_reported_as_missing_stock(cluster: Cluster) -> None:
    cluster.add_stock(2)
    async with replica(cluster) as api:
        api.transport.on("PATCH", "", refused(403, "Forbidden"), times=FOR_EVER)
        with pytest.raises(ForbiddenError):
            await claims_of(api).claim(claim_request())
        assert await api.create() == "forbidden"


async def test_too_many_rejections_end_the_claim(cluster: Cluster) -> None:
    cluster.add_stock(MOST_REFUSALS + 5)
    async with replica(cluster) as api:
        api.transport.on("PATCH", "", refused(403, "Forbidden"), times=FOR_EVER)
        with pytest.raises(ForbiddenError):
            await claims_of(api).claim(claim_request())
        assert len(api.transport.written()) == MOST_REFUSALS


async def test_a_claim_of_ours_that_cannot_be_restamped_is_left_for_other_stock(
    cluster: Cluster,
) -> None:
    cluster.add_stock(2)
    async with replica(cluster) as api:
        stock = claims_of(api)
        first = await claimed_by(stock, claim_request())
        name = first.stock.metadata.name
        api.transport.on("PATCH", name, refused(422, "Invalid"), times=FOR_EVER)
        assert await stock.restamp(first.stock, claim_request()) is None
        assert (await claimed_by(stock, claim_request())).stock.metadata.name != name
        assert await stock.claim(claim_request(operation_id="two")) is None
