"""Of several pools of one specName, which one gives it its envelope."""

from datetime import UTC, datetime, timedelta
from itertools import permutations

from gpuruntime.models.kinds.pools import StockPool, StockPoolSpec, StockPoolStatus
from gpuruntime.models.kubernetes.metadata import ObjectMeta
from gpuruntime.operations.lookup.envelopes import pool_in_force

START = datetime(2025, 1, 1, tzinfo=UTC)


def pool(name: str, *, age: int, memory: str = "1Gi", seeded: int = 0) -> StockPool:
    return StockPool(
        metadata=ObjectMeta(name=name, uid=name, creationTimestamp=START - timedelta(seconds=age)),
        spec=StockPoolSpec(specName="g", replicas=1, memory=memory),
        status=StockPoolStatus(seeded=seeded),
    )


def test_the_oldest_valid_one_decides_in_whatever_order_they_come() -> None:
    pools = [pool("a", age=1), pool("b", age=2), pool("c", age=3, memory="not-a-quantity")]
    for order in permutations(pools):
        decides = pool_in_force(order)
        assert decides is not None
        assert decides.metadata.name == "b"


def test_one_that_waited_for_another_to_go_does_not_take_the_name_from_what_was_made() -> None:
    decides = pool_in_force([pool("waited", age=2), pool("seeded", age=1, seeded=1)])
    assert decides is not None
    assert decides.metadata.name == "seeded"


def test_nobody_decides_where_no_pool_is_valid() -> None:
    assert pool_in_force([]) is None
    assert pool_in_force([pool("a", age=1, memory="0")]) is None
