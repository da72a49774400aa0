"""Counts that follow changes equal counts from scratch."""

from collections import Counter
from collections.abc import Callable
from random import Random

import attrs

from gpuruntime.models.kubernetes.metadata import Key, ObjectMeta
from gpuruntime.operations.lookup.counts import Counts

Change = Callable[[Key, "Thing | None", "Thing | None"], None]


@attrs.frozen(kw_only=True)
class Thing:
    metadata: ObjectMeta = ObjectMeta()
    group: str
    state: str
    amount: int


class Shelf:
    """A cache whose store can be read only once."""

    def __init__(self, *things: Thing) -> None:
        self.things = dict(enumerate(things))
        self.reads = 0
        self._handlers: list[Change] = []

    @property
    def store(self) -> "Shelf":
        return self

    def values(self) -> list[Thing]:
        self.reads += 1
        return list(self.things.values())

    def get(self, key: Key) -> Thing | None:
        raise NotImplementedError(key)

    def by_index(self, name: str, value: object) -> list[Thing]:
        raise NotImplementedError(name, value)

    def __len__(self) -> int:
        return len(self.things)

    def add_handler(self, handler: Change) -> None:
        self._handlers.append(handler)

    def write_through(self, written: Thing) -> bool:
        raise NotImplementedError(written)

    def put(self, number: int, thing: Thing | None) -> None:
        old = self.things.pop(number, None)
        if thing is not None:
            self.things[number] = thing
        for handler in self._handlers:
            handler(Key("n", str(number)), old, thing)


def drawn(rng: Random) -> Thing:
    return Thing(group=rng.choice("abc"), state=rng.choice("xyz"), amount=rng.randint(0, 5))


def counts_of(shelf: Shelf) -> Counts[Thing]:
    return Counts(
        shelf,
        lambda thing: thing.state,
        group_of=lambda thing: thing.group,
        amount_of=lambda thing: thing.amount,
    )


def test_counts_after_any_changes_equal_counts_from_scratch(rng: Random) -> None:
    shelf = Shelf(*(drawn(rng) for _ in range(10)))
    counts = counts_of(shelf)
    for _ in range(2_000):
        shelf.put(rng.randrange(15), rng.choice((None, drawn(rng))))
        again: Counter[tuple[str, str]] = Counter()
        for thing in shelf.things.values():
            again[thing.group, thing.state] += thing.amount
        assert {
            (group, state): count
            for group in counts.groups
            for state, count in counts.of(group).items()
            if count
        } == dict(+again)
        assert counts.total == again.total()
        assert counts.in_state("x") == sum(again[group, "x"] for group in "abc")
    assert shelf.reads == 1


def test_a_group_without_objects_disappears() -> None:
    shelf = Shelf(Thing(group="a", state="x", amount=1))
    counts = counts_of(shelf)
    shelf.put(0, None)
    assert counts.groups == set()
    assert counts.of("a") == {}
