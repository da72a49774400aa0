"""Pure decisions of a leader: about a unit, about a claimed stock unit, and about a pool."""

from collections.abc import Collection
from enum import StrEnum
from typing import NamedTuple

from tests.proofs.model.clauses import Clause
from tests.proofs.model.state import Scope, Stock, Unit


class Gate(StrEnum):
    START = "Start"
    WAIT = "Wait"
    LOSE = "Lose"
    REMOVE = "Remove"
    CLAIM_AGAIN = "ClaimAgain"


class Resolution(StrEnum):
    REST = "Rest"
    CONSUME = "Consume"
    AWAIT_RECORD = "AwaitRecord"
    DOUBT = "Doubt"


class Situation(NamedTuple):
    """All that the gate considers about a unit; `stock` is the stock unit that the unit names."""

    unit: Unit
    name: int
    rivals: tuple[tuple[int, Unit], ...]
    has_tombstone: bool
    stock: Stock | None
    is_unsettled: bool


def gate(given: Situation, scope: Scope) -> Gate:
    unit = given.unit
    if unit.has_started:
        return Gate.START
    if given.has_tombstone and scope.keeps(Clause.TOMBSTONE_GATE):
        return Gate.REMOVE
    me = (given.name, unit)
    if min((me, *given.rivals), key=lambda each: _precedence(each, scope)) != me:
        return Gate.LOSE
    if unit.has_lost and scope.keeps(Clause.LOSER_NEVER_STARTS):
        return Gate.LOSE
    if given.rivals and given.is_unsettled:
        return Gate.WAIT
    if is_held_for(given.stock, given.name, unit) or not scope.keeps(Clause.STOCK_GATE):
        return Gate.START
    return Gate.CLAIM_AGAIN


def is_claimable(stock: Stock, scope: Scope) -> bool:
    return stock.mark is None and (stock.is_current or not scope.keeps(Clause.OWN_GENERATION))


def follows(stock: Stock) -> bool:
    """Return whether a single stock unit takes the spec of its pool."""
    return stock.mark is None and stock.is_stale


def is_held_for(stock: Stock | None, name: int, unit: Unit) -> bool:
    if stock is None or stock.mark is None:
        return False
    return (stock.uid, stock.mark.name, stock.mark.operation) == (
        unit.source,
        name,
        unit.operation,
    )


def resolve(stock: Stock, claimant: Unit | None, scope: Scope, *, is_recorded: bool) -> Resolution:
    """Decide about a claimed stock unit; `claimant` is the unit with the name in the claim."""
    if stock.mark is None:
        return Resolution.REST
    if claimant is None or is_doubtful(stock, claimant):
        return Resolution.DOUBT
    if claimant.has_lost and not scope.keeps(Clause.LOSER_KEEPS_CLAIM):
        return Resolution.DOUBT
    if not claimant.has_started and scope.keeps(Clause.STARTED_CONSUMES):
        return Resolution.REST
    if is_recorded or not scope.keeps(Clause.RECORDED_CONSUMES):
        return Resolution.CONSUME
    return Resolution.AWAIT_RECORD


def is_doubtful(stock: Stock, claimant: Unit | None) -> bool:
    """Return whether the claimant does not use this claim."""
    if claimant is None or stock.mark is None:
        return True
    return (claimant.operation, claimant.source) != (stock.mark.operation, stock.uid)


class Plan(NamedTuple):
    """The writes of a pool. Ordinals begin at 1; none up to `recordable` is left to create."""

    make: int | None
    removes: tuple[int, ...]
    recordable: int


def plan(
    scope: Scope, seeded: int, stock_by_ordinal: tuple[Stock | None, ...], taken: Collection[int]
) -> Plan:
    """Plan the pool; `taken` are the ordinals that active units name."""
    living = {ordinal for ordinal, stock in enumerate(stock_by_ordinal, 1) if stock}
    used = {seeded, *taken, *living}
    highest = max(used)
    gaps = [each for each in range(seeded + 1, highest) if each not in used]
    free = [
        ordinal for ordinal, stock in enumerate(stock_by_ordinal, 1) if stock and not stock.mark
    ]
    missing = scope.replicas - (len(free) if scope.is_refilled else highest - len(gaps))
    surplus = max(0, -missing) if scope.is_refilled else 0
    makes = [*gaps, highest + 1][: max(0, missing)]
    unmade = [each for each in gaps[: max(0, missing)] if each < highest]
    return Plan(
        make=makes[0] if makes else None,
        removes=tuple(each for each in free[::-1][:surplus] if each <= seeded),
        recordable=min(unmade, default=highest + 1) - 1,
    )


def _precedence(each: tuple[int, Unit], scope: Scope) -> tuple[bool, int, int]:
    name, unit = each
    is_behind = not unit.has_started and scope.keeps(Clause.STARTED_WINS)
    return (is_behind, unit.rank, -name)
