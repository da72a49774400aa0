"""Shares of the stock are complete, do not overlap, and exist only between replicas that met."""

import asyncio
from random import Random

import pytest

from gpuruntime.operations.claim.sharding import REMEMBERED_SECONDS, StockShards
from tests.rooms.operations.units import claimed, stock

pytestmark = pytest.mark.looptime

STOCK = [stock(f"p-{number}") for number in range(200)]


def share(peers: StockShards) -> set[str]:
    return {unit.metadata.name for unit in peers.our_share(STOCK)}


async def test_a_replica_alone_has_all_stock_in_its_share() -> None:
    assert len(share(StockShards(Random(1)))) == 200


async def test_replicas_that_met_divide_the_stock_between_them() -> None:
    one, two = StockShards(Random(1)), StockShards(Random(2))
    one.meet(claimed(attempt=two.new_attempt()))
    two.meet(claimed(attempt=one.new_attempt()))
    assert share(one) | share(two) == {unit.metadata.name for unit in STOCK}
    assert not share(one) & share(two)
    assert 60 < len(share(one)) < 140


async def test_three_replicas_have_shares_of_about_the_same_size() -> None:
    for seed in range(20):
        replicas = [StockShards(Random(3 * seed + number)) for number in range(3)]
        for each in replicas:
            for other in replicas:
                each.meet(claimed(attempt=other.new_attempt()))
        shares = [share(each) for each in replicas]
        assert len(set.union(*shares)) == sum(map(len, shares)) == len(STOCK)
        assert all(35 < len(each) < 100 for each in shares), list(map(len, shares))


async def test_our_own_claims_and_claims_without_a_mark_are_not_meetings() -> None:
    peers = StockShards(Random(1))
    peers.meet(claimed(attempt=peers.new_attempt()))
    peers.meet(stock())
    assert len(share(peers)) == 200


async def test_a_peer_is_forgotten_after_a_while() -> None:
    one, two = StockShards(Random(1)), StockShards(Random(2))
    one.meet(claimed(attempt=two.new_attempt()))
    await asyncio.sleep(REMEMBERED_SECONDS + 1)
    assert len(share(one)) == 200


async def test_each_attempt_has_a_token_of_its_own() -> None:
    one, two = StockShards(Random(1)), StockShards(Random(2))
    tokens = [each.new_attempt() for each in (one, two) for _ in range(10)]
    assert len(set(tokens)) == 20
