"""The moves of people: they delete units, modify stock, and clear a claim manually."""

from collections.abc import Iterator

from tests.proofs.model.clauses import Clause
from tests.proofs.model.state import NAMES, Move, Scope, State, Unit, Verb, replaced

GONE = -1


def moves(state: State, scope: Scope) -> Iterator[Move]:
    for number, name in enumerate(scope.deleted):
        yield from _deletion(state, scope, number, name)
    if state.touches:
        yield from _touches(state)
    if state.has_manual_release:
        yield from _clearings(state)


def _deletion(state: State, scope: Scope, number: int, name: int) -> Iterator[Move]:
    """Yield the next of the two writes of a deletion; other moves may come between them."""
    unit, progress = state.units_by_name[name], state.deletion_progress[number]
    if unit is None or progress == GONE:
        return
    if progress == 0 and scope.keeps(Clause.TOMBSTONE_FIRST):
        buried = _with_tombstone(state, name, unit)
        yield (
            f"a deletion of unit {NAMES[name]} writes its tombstone",
            buried._replace(deletion_progress=replaced(state.deletion_progress, number, unit.uid)),
        )
    elif progress in (0, unit.uid):
        ended = state.history.ended | {(unit.operation, name)}
        gone = state.put_unit(name, None)._replace(history=state.history._replace(ended=ended))
        yield (
            f"the deletion of unit {NAMES[name]} lands",
            gone._replace(deletion_progress=replaced(state.deletion_progress, number, GONE)),
        )


def _with_tombstone(state: State, name: int, unit: Unit) -> State:
    return state._replace(tombstones=state.tombstones | {(unit.operation, name, unit.uid)})


def _touches(state: State) -> Iterator[Move]:
    for ordinal, stock in enumerate(state.stock_by_ordinal):
        if stock and not stock.mark:
            touched = state.put_stock(ordinal, stock._replace(version=stock.version + 1))
            label = f"stock {ordinal + 1} gets a new version"
            yield label, touched._replace(touches=state.touches - 1)


def _clearings(state: State) -> Iterator[Move]:
    """Yield manual clearings of claims whose unit has not started and has no start in flight."""
    starting = {each.target for each in state.requests if each.verb is Verb.START}
    for ordinal, stock in enumerate(state.stock_by_ordinal):
        unit = state.units_by_name[stock.mark.name] if stock and stock.mark else None
        if not stock or not stock.mark or not unit or unit.has_started:
            continue
        if stock.mark.name not in starting:
            freed = stock._replace(version=stock.version + 1, mark=None)
            label = f"a person clears the claim of stock {ordinal + 1}"
            yield label, state.put_stock(ordinal, freed)._replace(has_manual_release=False)
