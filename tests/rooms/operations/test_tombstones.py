"""Tombstones are written, written again, and read back whole."""

from datetime import timedelta

import attrs
import pytest

from gpuruntime.embedded.apiserver.in_process_transport import InProcessTransport
from gpuruntime.kube.client import Client
from gpuruntime.kube.errors import OutcomeUnknownError
from gpuruntime.models.kinds import labels
from gpuruntime.models.kinds.tombstones import EXPIRES_AT, TOMBSTONE_APP, Tombstone, tombstone_of
from gpuruntime.models.kinds.units import GPUUnit
from gpuruntime.models.kubernetes.cluster import ConfigMap
from gpuruntime.models.kubernetes.metadata import ObjectMeta
from gpuruntime.operations.tombstones import Tombstones
from tests.faults import ANSWER_LOST, FaultyTransport
from tests.rooms.operations.cluster import SYSTEM, Cluster
from tests.rooms.operations.units import MOMENT, active

pytestmark = pytest.mark.looptime

DAY_SECONDS = 86_400.0


def named(name: str, uid: str, operation: str = "one") -> GPUUnit:
    unit = active(operation=operation)
    return attrs.evolve(unit, metadata=attrs.evolve(unit.metadata, name=name, uid=uid))


@pytest.fixture
async def transport() -> FaultyTransport:
    return FaultyTransport(InProcessTransport(Cluster().server))


@pytest.fixture
def tombstones(transport: FaultyTransport) -> Tombstones:
    return Tombstones(
        Client(transport),
        namespace=SYSTEM,
        retention_seconds=DAY_SECONDS,
        now=lambda: MOMENT,
    )


async def found(tombstones: Tombstones, operation: str = "one") -> Tombstone:
    tombstone = await tombstones.find(operation)
    assert tombstone
    return tombstone


async def test_an_unfinished_operation_has_no_tombstone(tombstones: Tombstones) -> None:
    assert await tombstones.find("one") is None


async def test_a_tombstone_is_read_back_whole_and_expires_after_the_retention(
    tombstones: Tombstones,
) -> None:
    await tombstones.write("GPUUnit", named("demo", "u1"))
    tombstone = await found(tombstones)
    assert tombstone.operation_id == "one"
    assert tombstone.expires_at == MOMENT + timedelta(seconds=DAY_SECONDS)
    [buried] = tombstone.buried
    assert (buried.kind, buried.name, buried.uid, buried.requestHash) == (
        "GPUUnit",
        "demo",
        "u1",
        "h1",
    )


async def test_the_sweeper_finds_a_tombstone_by_its_label(
    tombstones: Tombstones, transport: FaultyTransport
) -> None:
    await tombstones.write("GPUUnit", named("demo", "u1"))
    assert TOMBSTONE_APP.encode() in (transport.sent[0].body or b"")


async def test_operations_have_tombstones_of_their_own(tombstones: Tombstones) -> None:
    await tombstones.write("GPUUnit", named("demo", "u1", operation="one"))
    await tombstones.write("GPUUnit", named("demo", "u2", operation="TWO:x_y"))
    assert [each.uid for each in (await found(tombstones)).buried] == ["u1"]
    assert (await found(tombstones, "TWO:x_y")).operation_id == "TWO:x_y"


async def test_several_objects_of_one_operation_share_a_tombstone(tombstones: Tombstones) -> None:
    await tombstones.write("GPUUnit", named("winner", "u1"))
    await tombstones.write("GPUUnit", named("loser", "u2"))
    await tombstones.write("GPUUnit", named("loser", "u2"))
    assert {each.uid for each in (await found(tombstones)).buried} == {"u1", "u2"}


async def test_a_tombstone_whose_answer_was_lost_can_be_written_again(
    tombstones: Tombstones, transport: FaultyTransport
) -> None:
    transport.on("POST", "configmaps", ANSWER_LOST)
    with pytest.raises(OutcomeUnknownError):
        await tombstones.write("GPUUnit", named("demo", "u1"))
    await tombstones.write("GPUUnit", named("demo", "u1"))
    assert len((await found(tombstones)).buried) == 1


async def test_a_tombstone_forbids_only_another_object_of_the_same_name(
    tombstones: Tombstones,
) -> None:
    await tombstones.write("GPUUnit", named("demo", "u1"))
    tombstone = await found(tombstones)
    assert tombstone.forbids(named("demo", "u2"))
    assert not tombstone.forbids(named("demo", "u1"))
    assert not tombstone.forbids(named("other", "u2"))


@pytest.mark.parametrize("text", ["", "tomorrow", "2025-01-01T00:00:00"])
def test_an_overwritten_tombstone_still_finishes_its_operation_and_never_expires(
    text: str,
) -> None:
    annotations = {labels.OPERATION_ID: "one", EXPIRES_AT: text}
    tombstone = tombstone_of(
        ConfigMap(metadata=ObjectMeta(annotations=annotations), data={"u1": "not JSON"})
    )
    assert tombstone.operation_id == "one"
    assert tombstone.buried == ()
    assert tombstone.expires_at > MOMENT + timedelta(days=9999)
