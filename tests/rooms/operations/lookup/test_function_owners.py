"""Of several units that declare one function, which one owns it."""

from datetime import UTC, datetime, timedelta
from itertools import permutations

from gpuruntime.models.kinds.functions import Serverless
from gpuruntime.models.kinds.units import GPUUnit, GPUUnitSpec
from gpuruntime.models.kubernetes.metadata import ObjectMeta
from gpuruntime.operations.lookup.function_owners import owner_of

START = datetime(2025, 1, 1, tzinfo=UTC)


def template(name: str, *, age: int, uid: str = "") -> GPUUnit:
    return GPUUnit(
        metadata=ObjectMeta(
            name=name, uid=uid or name, creationTimestamp=START - timedelta(seconds=age)
        ),
        spec=GPUUnitSpec(specName="g", serverless=Serverless(requestID="f")),
    )


def test_the_oldest_owns_it_in_whatever_order_they_come() -> None:
    templates = [template("a", age=1), template("b", age=3), template("c", age=2)]
    for order in permutations(templates):
        owner = owner_of(order)
        assert owner is not None
        assert owner.metadata.name == "b"


def test_of_the_same_second_the_smaller_uid_decides() -> None:
    owner = owner_of([template("a", age=1, uid="2"), template("b", age=1, uid="1")])
    assert owner is not None
    assert owner.metadata.name == "b"


def test_nobody_owns_what_nobody_declares() -> None:
    assert owner_of([]) is None
