from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuruntime.informer.store import Store, Tables, version_number
from gpuruntime.kube.errors import MalformedAnswerError
from gpuruntime.models.kubernetes.metadata import Key, ObjectMeta
from tests.rooms.kube.things import KEY, Thing, ThingSpec

OTHER = Key("lab", "bellows")


def thing_of(key: Key, size: int) -> Thing:
    metadata = ObjectMeta(namespace=key.namespace, name=key.name, resourceVersion="1")
    return Thing(metadata=metadata, spec=ThingSpec(size=size))


def digits(found: Thing) -> Iterator[str]:
    """Index some objects under several values, and others under none."""
    yield from sorted(set(str(found.spec.size)) - {"0"})


@pytest.fixture
def tables() -> Tables[Thing]:
    return Tables({"digits": digits})


def test_an_object_is_found_under_each_value_of_an_index(tables: Tables[Thing]) -> None:
    anvil = thing_of(KEY, 12)
    tables.put(KEY, anvil)
    store = Store(tables)
    assert list(store.by_index("digits", "1")) == [anvil]
    assert list(store.by_index("digits", "2")) == [anvil]
    assert list(store.by_index("digits", "3")) == []


def test_an_index_follows_the_changes_of_an_object(tables: Tables[Thing]) -> None:
    store = Store(tables)
    tables.put(KEY, thing_of(KEY, 12))
    changed = thing_of(KEY, 23)
    tables.put(KEY, changed)
    assert list(store.by_index("digits", "1")) == []
    assert list(store.by_index("digits", "2")) == [changed]
    assert set(tables.indexed["digits"]) == {"2", "3"}


def test_an_unknown_index_is_an_error(tables: Tables[Thing]) -> None:
    with pytest.raises(KeyError):
        Store(tables).by_index("colour", "red")


def test_removing_a_missing_object_changes_nothing(tables: Tables[Thing]) -> None:
    tables.put(KEY, thing_of(KEY, 1))
    assert tables.remove(OTHER) is None
    assert len(Store(tables)) == 1


def test_taking_over_replaces_objects_and_indexes_for_every_reader(tables: Tables[Thing]) -> None:
    store = Store(tables)
    anvil, bellows = thing_of(KEY, 1), thing_of(OTHER, 2)
    tables.put(KEY, anvil)
    fresh = Tables({"digits": digits})
    fresh.put(OTHER, bellows)
    assert tables.take_over(fresh) == {KEY: anvil}
    assert dict(store.items()) == {OTHER: bellows}
    assert list(store.by_index("digits", "1")) == []
    assert list(store.by_index("digits", "2")) == [bellows]


KEYS = st.builds(Key, st.just("lab"), st.sampled_from("abcd"))
STEPS = st.lists(st.tuples(KEYS, st.none() | st.integers(min_value=0, max_value=999)))


@given(STEPS)
def test_indexes_equal_rebuilt_ones_after_any_changes(
    steps: list[tuple[Key, int | None]],
) -> None:
    tables = Tables({"digits": digits})
    for key, size in steps:
        if size is None:
            tables.remove(key)
        else:
            tables.put(key, thing_of(key, size))
    anew = Tables({"digits": digits})
    for key, found in tables.objects.items():
        anew.put(key, found)
    assert tables.indexed == anew.indexed


def test_a_version_that_is_no_number_is_a_malformed_answer() -> None:
    with pytest.raises(MalformedAnswerError, match="lab/anvil carries the resourceVersion 'x1'"):
        version_number("x1", "lab/anvil")
