"""Invariants of every state, and of the states in which no move is left."""

from collections import Counter
from collections.abc import Iterator

from tests.proofs.model.decisions import is_held_for
from tests.proofs.model.state import Scope, State, Step, Unit


def breaches(state: State, scope: Scope) -> tuple[str, ...]:
    """Return the breaches of invariants that hold in every state."""
    found = (*state.history.faults, *_unit_breaches(state, scope), *_answer_breaches(state, scope))
    if scope.is_ordered and _has_duplicates(
        stock.mark.operation for stock in state.stock_by_ordinal if stock and stock.mark
    ):
        return (*found, "a retry takes a second stock unit")
    return found


def unfinished(state: State, scope: Scope) -> tuple[str, ...]:
    """Return the claims and units that have not reached their end in a state without moves."""
    if not scope.leaders:
        return ()
    return (*_idle_claims(state), *_idle_units(state), *_idle_stock(state))


def _unit_breaches(state: State, scope: Scope) -> Iterator[str]:
    units = [unit for unit in state.units_by_name if unit]
    started = [unit for unit in units if unit.has_started]
    if _has_duplicates(unit.source for unit in started):
        yield "two started units use one stock unit"
    if _has_duplicates(unit.operation for unit in started):
        yield "two started units have one operation"
    if any(unit.is_late for unit in started):
        yield "a unit of a finished operation starts"
    if not scope.has_manual_release:
        named = {unit.source for unit in units if not unit.is_late}
        if any(
            stock and not stock.mark and stock.uid in named for stock in state.stock_by_ordinal
        ):
            yield "stock is free while a unit names it"


def _answer_breaches(state: State, scope: Scope) -> Iterator[str]:
    for attempt, order in zip(state.attempts, scope.orders, strict=True):
        if attempt.step is not Step.DONE or not attempt.found:
            continue
        if attempt.is_late:
            yield "a finished operation is answered with a unit"
        unit = state.units_by_name[order.name]
        is_there = unit is not None and unit.uid == attempt.found
        if not is_there and (order.operation, order.name) not in state.history.ended:
            yield "a caller is answered with a unit that does not exist"


def _idle_claims(state: State) -> Iterator[str]:
    for stock in state.stock_by_ordinal:
        if stock is None or stock.mark is None:
            continue
        unit = state.units_by_name[stock.mark.name]
        is_kept = unit is not None and unit.source == stock.uid and unit.has_lost
        if not is_kept:
            yield "a claim is neither consumed nor freed"


def _idle_units(state: State) -> Iterator[str]:
    for name, unit in enumerate(state.units_by_name):
        if unit and not unit.has_started and not unit.has_lost and _holds(state, name, unit):
            yield "a unit that holds its stock never starts"


def _idle_stock(state: State) -> Iterator[str]:
    for stock in state.stock_by_ordinal:
        if stock and not stock.mark and (stock.is_stale or not stock.is_current):
            yield "free stock never runs the spec of its pool"


def _holds(state: State, name: int, unit: Unit) -> bool:
    return any(is_held_for(stock, name, unit) for stock in state.stock_by_ordinal)


def _has_duplicates(values: Iterator[str] | Iterator[int]) -> bool:
    return any(count > 1 for count in Counter(values).values())
