"""Caches that lag: each reader sees some prefix of each kind's history, and never goes back.

A cache moves only when its reader reads. That allows the same behaviour as caches that move by
themselves; and of two reads with one outcome only the one of older caches is kept, since whoever
has seen less may still see everything else.
"""

from collections.abc import Iterable, Iterator
from itertools import product
from typing import NamedTuple

from tests.proofs.model.clauses import Clause
from tests.proofs.model.world import (
    LEADER,
    Move,
    Place,
    Roster,
    Scope,
    Shelf,
    Step,
    World,
    replaced,
)


class Seen(NamedTuple):
    shelf: Shelf
    roster: Roster
    seeded: int


def glimpses(world: World, reader: int) -> Iterator[tuple[World, Seen]]:
    """Whatever the reader's caches may show, with the world in which they have come so far."""
    place = world.places[reader]
    lengths = (len(world.stock), len(world.units), len(world.pool))
    spans = [range(begin, end) for begin, end in zip(place, lengths, strict=True)]
    for numbers in product(*spans):
        now = Place(*numbers)
        seen = Seen(world.stock[now.stock], world.units[now.units], world.pool[now.pool])
        yield world._replace(places=replaced(world.places, reader, now)), seen


def oldest(reader: int, moves: Iterable[Move]) -> Iterator[Move]:
    kept: dict[Move, list[Place]] = {}
    for label, world in moves:
        place = world.places[reader]
        bare = (label, world._replace(places=replaced(world.places, reader, Place())))
        places = kept.setdefault(bare, [])
        if not any(all(x <= y for x, y in zip(each, place, strict=True)) for each in places):
            places.append(place)
            yield label, world


def caught_up(world: World, reader: int) -> World:
    return world._replace(places=replaced(world.places, reader, _end(world)))


def trimmed(world: World, scope: Scope) -> World:
    """Forgets what no reader has yet to see, so that equal worlds are equal values."""
    end = _end(world)
    places = tuple(
        place if _reads(world, scope, reader) else end for reader, place in enumerate(world.places)
    )
    places = tuple(
        place._replace(pool=end.pool) if reader < LEADER else place
        for reader, place in enumerate(places)
    )
    cut = Place(*(min(column) for column in zip(*places, strict=True)))
    return world._replace(
        stock=world.stock[cut.stock :],
        units=world.units[cut.units :],
        pool=world.pool[cut.pool :],
        places=tuple(
            Place(each.stock - cut.stock, each.units - cut.units, each.pool - cut.pool)
            for each in places
        ),
    )


def _end(world: World) -> Place:
    return Place(len(world.stock) - 1, len(world.units) - 1, len(world.pool) - 1)


def _reads(world: World, scope: Scope, reader: int) -> bool:
    """Whether what it has seen so far can still matter."""
    if reader < LEADER:
        return any(
            attempt.step is not Step.DONE and order.replica == reader
            for attempt, order in zip(world.attempts, scope.orders, strict=True)
        )
    number = reader - LEADER
    if number >= scope.leaders or number < world.leader:
        return False
    return number == world.leader or not scope.keeps(Clause.RELIST)
