"""Versions of lists, events and own writes that meet in any order."""

import pytest

from gpuruntime.informer.writer import MOST_TOMBSTONES, Writer
from gpuruntime.kube.watch import Change, ChangeType
from gpuruntime.models.encoding import codec
from gpuruntime.models.kubernetes.metadata import Key, ObjectMeta
from tests.rooms.informer.harness import Heard
from tests.rooms.kube import things
from tests.rooms.kube.things import KEY, Thing, ThingSpec


def anvil(version: int, size: int = 1, *, name: str = KEY.name) -> Thing:
    metadata = ObjectMeta(namespace=KEY.namespace, name=name, resourceVersion=str(version))
    return Thing(metadata=metadata, spec=ThingSpec(size=size))


def put(found: Thing) -> Change[Thing]:
    return Change(type=ChangeType.MODIFIED, object=found)


def delete(found: Thing) -> Change[Thing]:
    return Change(type=ChangeType.DELETED, object=found)


@pytest.fixture
def heard() -> Heard:
    return Heard()


@pytest.fixture
def writer(heard: Heard) -> Writer[Thing]:
    return Writer(Thing, {}, [heard])


def relist(writer: Writer[Thing], version: int, *items: Thing) -> None:
    draft = writer.begin_list()
    draft.add(items)
    writer.adopt_list(draft, version)


def held_version(writer: Writer[Thing]) -> str | None:
    held = writer.store.get(KEY)
    return held.metadata.resourceVersion if held else None


def test_an_own_write_is_held_and_announced_before_its_event(
    writer: Writer[Thing], heard: Heard
) -> None:
    relist(writer, 10, anvil(10))
    assert writer.write_through(anvil(12))
    assert held_version(writer) == "12"
    writer.apply(put(anvil(12)))
    assert heard.names == ["anvil"]


def test_an_event_between_the_held_and_the_written_version_is_ignored(
    writer: Writer[Thing], heard: Heard
) -> None:
    relist(writer, 10, anvil(10))
    writer.write_through(anvil(12))
    writer.apply(put(anvil(11)))
    assert held_version(writer) == "12"
    assert len(heard.changes) == 1


def test_an_answer_after_a_newer_event_is_ignored(writer: Writer[Thing]) -> None:
    relist(writer, 10, anvil(10))
    writer.apply(put(anvil(13)))
    assert not writer.write_through(anvil(12))
    assert held_version(writer) == "13"


def test_an_answer_after_the_deletion_revives_no_object(writer: Writer[Thing]) -> None:
    relist(writer, 10, anvil(10))
    writer.apply(delete(anvil(14)))
    assert not writer.write_through(anvil(12))
    assert held_version(writer) is None


def test_a_created_object_is_held_before_its_event(writer: Writer[Thing]) -> None:
    relist(writer, 10)
    assert writer.write_through(anvil(11))
    assert held_version(writer) == "11"


def test_a_list_read_during_a_write_does_not_undo_it(writer: Writer[Thing]) -> None:
    relist(writer, 10, anvil(10))
    draft = writer.begin_list()
    draft.add([anvil(10)])
    writer.write_through(anvil(12))
    before = writer.adopt_list(draft, 11)
    assert held_version(writer) == "12"
    assert before[KEY].metadata.resourceVersion == "12"


def test_a_list_read_during_a_create_keeps_the_object(writer: Writer[Thing]) -> None:
    draft = writer.begin_list()
    writer.write_through(anvil(12))
    writer.adopt_list(draft, 11)
    assert held_version(writer) == "12"


def test_an_object_written_before_the_list_but_not_in_it_is_deleted(
    writer: Writer[Thing],
) -> None:
    draft = writer.begin_list()
    writer.write_through(anvil(12))
    writer.adopt_list(draft, 15)
    assert held_version(writer) is None
    assert not writer.write_through(anvil(13))
    writer.apply(put(anvil(13)))
    assert held_version(writer) is None


def test_an_object_written_during_the_list_is_deleted_by_a_later_event(
    writer: Writer[Thing],
) -> None:
    draft = writer.begin_list()
    writer.write_through(anvil(12))
    writer.adopt_list(draft, 11)
    writer.apply(put(anvil(12)))
    writer.apply(delete(anvil(13)))
    assert held_version(writer) is None


def test_a_new_list_knows_nothing_of_an_abandoned_one(writer: Writer[Thing]) -> None:
    writer.begin_list()
    writer.write_through(anvil(12))
    relist(writer, 20)
    assert held_version(writer) is None


def test_an_object_created_again_is_held_after_its_deletion(writer: Writer[Thing]) -> None:
    writer.apply(put(anvil(10)))
    writer.apply(delete(anvil(11)))
    writer.apply(put(anvil(12)))
    assert held_version(writer) == "12"


def test_a_deletion_at_the_held_version_counts(writer: Writer[Thing]) -> None:
    writer.apply(put(anvil(10)))
    writer.apply(delete(anvil(10)))
    assert held_version(writer) is None


def test_a_late_deletion_of_an_earlier_object_of_that_name_is_ignored(
    writer: Writer[Thing],
) -> None:
    writer.apply(put(anvil(12)))
    writer.apply(delete(anvil(11)))
    assert held_version(writer) == "12"


def test_unchanged_objects_stay_the_same_instances_through_a_list(
    writer: Writer[Thing],
) -> None:
    relist(writer, 10, anvil(10))
    held = writer.store.get(KEY)
    relist(writer, 20, anvil(10))
    assert writer.store.get(KEY) is held


def test_objects_from_events_are_compacted(writer: Writer[Thing]) -> None:
    for name in ("anvil", "bellows"):
        body = codec.encode(things.thing(name, version="10"))
        writer.apply(put(codec.decode(body, Thing)))
    one, two = writer.store.values()
    assert one.metadata.namespace is two.metadata.namespace


def test_a_draft_has_the_highest_version_seen_before_it(writer: Writer[Thing]) -> None:
    writer.apply(put(anvil(10)))
    writer.write_through(anvil(14))
    draft = writer.begin_list()
    writer.write_through(anvil(15))
    assert draft.known_version == 14


def test_a_server_restored_from_a_backup_is_trusted_after_its_list(
    writer: Writer[Thing],
) -> None:
    writer.apply(put(anvil(500)))
    writer.apply(delete(anvil(501, name="bellows")))
    relist(writer, 100, anvil(90))
    writer.apply(put(anvil(101)))
    writer.apply(put(anvil(102, name="bellows")))
    assert held_version(writer) == "101"
    assert Key(KEY.namespace, "bellows") in writer.store
    assert writer.begin_list().known_version == 102


def test_the_number_of_remembered_deletions_is_bounded(writer: Writer[Thing]) -> None:
    for number in range(MOST_TOMBSTONES + 1):
        writer.apply(delete(anvil(100 + number, name=f"anvil-{number}")))
    writer.apply(put(anvil(99, name="anvil-1")))
    assert Key(KEY.namespace, "anvil-1") not in writer.store
    assert len(writer._tombstones) == MOST_TOMBSTONES
