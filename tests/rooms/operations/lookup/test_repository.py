"""The pool in force, and the owner of a function, among several candidates."""

from datetime import UTC, datetime, timedelta
from itertools import permutations

from gpuruntime.models.kinds.functions import Serverless
from gpuruntime.models.kinds.pools import StockPool, StockPoolSpec, StockPoolStatus
from gpuruntime.models.kinds.units import GPUUnit, GPUUnitSpec
from gpuruntime.models.kubernetes.metadata import ObjectMeta
from gpuruntime.operations.lookup.repository import owner_of, pool_in_force

START = datetime(2025, 1, 1, tzinfo=UTC)


def pool(name: str, *, age: int, memory: str = "1Gi", seeded: int = 0) -> StockPool:
    return StockPool(
        metadata=ObjectMeta(name=name, uid=name, creationTimestamp=START - timedelta(seconds=age)),
        spec=StockPoolSpec(specName="g", replicas=1, memory=memory),
        status=StockPoolStatus(seeded=seeded),
    )


def test_the_oldest_valid_pool_is_in_force_whatever_their_order() -> None:
    pools = [pool("a", age=1), pool("b", age=2), pool("c", age=3, memory="not-a-quantity")]
    for order in permutations(pools):
        decides = pool_in_force(order)
        assert decides is not None
        assert decides.metadata.name == "b"


def test_a_pool_that_waited_does_not_take_the_name_from_a_pool_that_seeded() -> None:
    decides = pool_in_force([pool("waited", age=2), pool("seeded", age=1, seeded=1)])
    assert decides is not None
    assert decides.metadata.name == "seeded"


def test_no_pool_is_in_force_if_none_is_valid() -> None:
    assert pool_in_force([]) is None
    assert pool_in_force([pool("a", age=1, memory="0")]) is None


def template(name: str, *, age: int, uid: str = "") -> GPUUnit:
    return GPUUnit(
        metadata=ObjectMeta(
            name=name, uid=uid or name, creationTimestamp=START - timedelta(seconds=age)
        ),
        spec=GPUUnitSpec(specName="g", serverless=Serverless(requestID="f")),
    )


def test_the_oldest_template_owns_the_function_whatever_their_order() -> None:
    templates = [template("a", age=1), template("b", age=3), template("c", age=2)]
    for order in permutations(templates):
        owner = owner_of(order)
        assert owner is not None
        assert owner.metadata.name == "b"


def test_the_smaller_uid_decides_between_templates_of_one_second() -> None:
    owner = owner_of([template("a", age=1, uid="2"), template("b", age=1, uid="1")])
    assert owner is not None
    assert owner.metadata.name == "b"


def test_an_undeclared_function_has_no_owner() -> None:
    assert owner_of([]) is None
