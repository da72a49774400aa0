"""What must never be, and what must have come about once nothing is left to do."""

from collections import Counter
from collections.abc import Iterator

from tests.proofs.model.decisions import is_held_for
from tests.proofs.model.world import Scope, Step, Unit, World


def breaches(world: World, scope: Scope) -> tuple[str, ...]:
    """At any moment."""
    found = (*world.past.faults, *_of_units(world, scope), *_of_answers(world, scope))
    if scope.is_ordered and _has_twins(
        stock.mark.operation for stock in world.shelf if stock and stock.mark
    ):
        return (*found, "a retry takes a second stock unit")
    return found


def unfinished(world: World, scope: Scope) -> tuple[str, ...]:
    """Where no move is left: every claim has come to its end, and every unit to its own."""
    return (*_idle_claims(world), *_idle_units(world)) if scope.leaders else ()


def _of_units(world: World, scope: Scope) -> Iterator[str]:
    units = [unit for unit in world.roster if unit]
    started = [unit for unit in units if unit.has_started]
    if _has_twins(unit.source for unit in started):
        yield "two started units live from one stock unit"
    if _has_twins(unit.operation for unit in started):
        yield "two started units carry one operation"
    if any(unit.is_late for unit in started):
        yield "a unit of a finished operation starts"
    if not scope.has_hand:
        named = {unit.source for unit in units if not unit.is_late}
        if any(stock and not stock.mark and stock.uid in named for stock in world.shelf):
            yield "stock is free while a unit names it"


def _of_answers(world: World, scope: Scope) -> Iterator[str]:
    for attempt, order in zip(world.attempts, scope.orders, strict=True):
        if attempt.step is not Step.DONE or not attempt.found:
            continue
        if attempt.is_late:
            yield "a finished operation is answered"
        unit = world.roster[order.name]
        is_there = unit is not None and unit.uid == attempt.found
        if not is_there and (order.operation, order.name) not in world.past.ended:
            yield "a caller was told of a unit that is not there"


def _idle_claims(world: World) -> Iterator[str]:
    for stock in world.shelf:
        if stock is None or stock.mark is None:
            continue
        unit = world.roster[stock.mark.name]
        is_kept = unit is not None and unit.source == stock.uid and unit.has_lost
        if not is_kept:
            yield "a claim is neither consumed nor freed"


def _idle_units(world: World) -> Iterator[str]:
    for name, unit in enumerate(world.roster):
        if unit and not unit.has_started and not unit.has_lost and _holds(world, name, unit):
            yield "a unit that holds its stock never starts"


def _holds(world: World, name: int, unit: Unit) -> bool:
    return any(is_held_for(stock, name, unit) for stock in world.shelf)


def _has_twins(values: Iterator[str] | Iterator[int]) -> bool:
    return any(count > 1 for count in Counter(values).values())
