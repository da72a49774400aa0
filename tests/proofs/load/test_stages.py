import json

from tests.proofs.load.stages import Size

SIZE = Size(stock=995, active=99, callers=8, rest_seconds=1)


def test_the_pools_add_up_to_the_whole_stock() -> None:
    assert sum(SIZE.pools.values()) == SIZE.stock


def test_no_pool_gets_more_claims_than_it_has_units() -> None:
    everything = Size(stock=40, active=40, callers=8, rest_seconds=1)
    asked = [json.loads(each.body)["specName"] for each in everything.claims]
    assert {spec: asked.count(spec) for spec in everything.pools} == everything.pools


def test_every_other_claimed_unit_is_deleted() -> None:
    claimed = [json.loads(each.body)["name"] for each in SIZE.claims]
    assert [each.path.rpartition("/")[2] for each in SIZE.deletions] == claimed[::2]
