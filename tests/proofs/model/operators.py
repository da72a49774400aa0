"""What people do beside it all: delete units, touch stock, and clear a claim by hand."""

from collections.abc import Iterator

from tests.proofs.model.clauses import Clause
from tests.proofs.model.world import NAMES, Move, Scope, Unit, Verb, World, replaced

GONE = -1


def moves(world: World, scope: Scope) -> Iterator[Move]:
    for number, name in enumerate(scope.deleted):
        yield from _deletion(world, scope, number, name)
    if world.touches:
        yield from _touches(world)
    if world.has_hand:
        yield from _clearings(world)


def _deletion(world: World, scope: Scope, number: int, name: int) -> Iterator[Move]:
    """Through the API: two writes, between which anything may happen."""
    unit, state = world.roster[name], world.buried[number]
    if unit is None or state == GONE:
        return
    if state == 0 and scope.keeps(Clause.TOMBSTONE_FIRST):
        buried = _buried(world, name, unit)
        yield (
            f"a deletion of unit {NAMES[name]} writes its tombstone",
            buried._replace(buried=replaced(world.buried, number, unit.uid)),
        )
    elif state in (0, unit.uid):
        ended = world.past.ended | {(unit.operation, name)}
        gone = world.put_unit(name, None)._replace(past=world.past._replace(ended=ended))
        yield (
            f"the deletion of unit {NAMES[name]} lands",
            gone._replace(buried=replaced(world.buried, number, GONE)),
        )


def _buried(world: World, name: int, unit: Unit) -> World:
    return world._replace(tombstones=world.tombstones | {(unit.operation, name, unit.uid)})


def _touches(world: World) -> Iterator[Move]:
    for ordinal, stock in enumerate(world.shelf):
        if stock and not stock.mark:
            touched = world.put_stock(ordinal, stock._replace(version=stock.version + 1))
            label = f"stock {ordinal + 1} gets a new version"
            yield label, touched._replace(touches=world.touches - 1)


def _clearings(world: World) -> Iterator[Move]:
    """Under a unit that has not started, and is not about to."""
    starting = {each.target for each in world.requests if each.verb is Verb.START}
    for ordinal, stock in enumerate(world.shelf):
        unit = world.roster[stock.mark.name] if stock and stock.mark else None
        if not stock or not stock.mark or not unit or unit.has_started:
            continue
        if stock.mark.name not in starting:
            freed = stock._replace(version=stock.version + 1, mark=None)
            label = f"somebody clears the claim of stock {ordinal + 1} by hand"
            yield label, world.put_stock(ordinal, freed)._replace(has_hand=False)
