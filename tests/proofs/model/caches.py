"""Caches that lag: each reader sees some prefix of each kind's history, and never goes back.

A cache moves only when its reader reads, which allows the same behaviour as independent caches. If
two reads have the same outcome, only the one with the older caches is kept: its reader can still
see everything else.
"""

from collections.abc import Iterable, Iterator
from itertools import product
from typing import NamedTuple

from tests.proofs.model.clauses import Clause
from tests.proofs.model.state import (
    LEADER,
    CachePosition,
    Move,
    Scope,
    State,
    Step,
    StockByOrdinal,
    UnitsByName,
    replaced,
)


class Seen(NamedTuple):
    stock_by_ordinal: StockByOrdinal
    units_by_name: UnitsByName
    seeded: int


def views(state: State, reader: int) -> Iterator[tuple[State, Seen]]:
    """Yield everything that the reader's caches may show, and the state after that read."""
    position = state.positions[reader]
    lengths = (len(state.stock), len(state.units), len(state.pool))
    spans = [range(begin, end) for begin, end in zip(position, lengths, strict=True)]
    for numbers in product(*spans):
        now = CachePosition(*numbers)
        seen = Seen(state.stock[now.stock], state.units[now.units], state.pool[now.pool])
        yield state._replace(positions=replaced(state.positions, reader, now)), seen


def oldest(reader: int, moves: Iterable[Move]) -> Iterator[Move]:
    kept: dict[Move, list[CachePosition]] = {}
    for label, state in moves:
        position = state.positions[reader]
        bare = (
            label,
            state._replace(positions=replaced(state.positions, reader, CachePosition())),
        )
        positions = kept.setdefault(bare, [])
        if not any(all(x <= y for x, y in zip(each, position, strict=True)) for each in positions):
            positions.append(position)
            yield label, state


def caught_up(state: State, reader: int) -> State:
    return state._replace(positions=replaced(state.positions, reader, _end(state)))


def without_seen_history(state: State, scope: Scope) -> State:
    """Drop the history that every reader has seen, so that equal states are equal values."""
    end = _end(state)
    positions = tuple(
        position if _reads(state, scope, reader) else end
        for reader, position in enumerate(state.positions)
    )
    positions = tuple(
        position._replace(pool=end.pool) if reader < LEADER else position
        for reader, position in enumerate(positions)
    )
    cut = CachePosition(*(min(column) for column in zip(*positions, strict=True)))
    return state._replace(
        stock=state.stock[cut.stock :],
        units=state.units[cut.units :],
        pool=state.pool[cut.pool :],
        positions=tuple(
            CachePosition(each.stock - cut.stock, each.units - cut.units, each.pool - cut.pool)
            for each in positions
        ),
    )


def _end(state: State) -> CachePosition:
    return CachePosition(len(state.stock) - 1, len(state.units) - 1, len(state.pool) - 1)


def _reads(state: State, scope: Scope, reader: int) -> bool:
    """Return whether what the reader has seen so far can still matter."""
    if reader < LEADER:
        return any(
            attempt.step is not Step.DONE and order.replica == reader
            for attempt, order in zip(state.attempts, scope.orders, strict=True)
        )
    number = reader - LEADER
    if number >= scope.leaders or number < state.leader:
        return False
    return number == state.leader or not scope.keeps(Clause.RELIST)
