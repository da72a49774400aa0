"""The moves of leaders: units pass the gate, claims end, and pools are seeded.

A worker waits for the answer to its write before the next write. A leader that dies or loses an
answer leaves the write in flight; a leader that stops regularly gives its lease back.
"""

from collections.abc import Iterator

from tests.proofs.model.api_server import describe, guard_holds
from tests.proofs.model.caches import Seen, caught_up, oldest, views
from tests.proofs.model.clauses import Clause
from tests.proofs.model.decisions import (
    Gate,
    Resolution,
    Situation,
    follows,
    gate,
    is_doubtful,
    plan,
    resolve,
)
from tests.proofs.model.state import (
    FROM_LEADER,
    LEADER,
    Mark,
    Move,
    Request,
    Scope,
    State,
    Step,
    Unit,
    Verb,
)


def moves(state: State, scope: Scope) -> Iterator[Move]:
    if not scope.leaders:
        return
    if state.leader + 1 < scope.leaders:
        yield _succession(state, scope)
        if scope.hands_over and _may_give_back(state, scope):
            yield _hand_over(state, scope)
    if len(state.awaits) < scope.workers:
        yield from oldest(LEADER + state.leader, _writes(state, scope))
    if state.lost_answers:
        for request in sorted(state.awaits):
            label = f"leader {state.leader + 1} loses the answer to {describe(request, scope)}"
            yield label, _lose_answer(state, request)


def after_answer(state: State, request: Request) -> State:
    """Return the state after an answer, which updates the leader's cache of that kind."""
    state = caught_up_with(state, request)
    return state._replace(awaits=state.awaits - {request})


def _lose_answer(state: State, request: Request) -> State:
    awaits = state.awaits - {request}
    return state._replace(awaits=awaits, lost_answers=state.lost_answers - 1)


def caught_up_with(state: State, request: Request) -> State:
    reader = LEADER + request.sender - FROM_LEADER
    before = state.positions[reader]
    after = caught_up(state, reader).positions[reader]
    match request.verb:
        case Verb.START | Verb.REMOVE | Verb.LOSE:
            position = before._replace(units=after.units)
        case Verb.RECORD:
            position = before._replace(pool=after.pool)
        case _:
            position = before._replace(stock=after.stock)
    positions = (*state.positions[:reader], position, *state.positions[reader + 1 :])
    return state._replace(positions=positions)


def _succession(state: State, scope: Scope) -> Move:
    number = state.leader + 1
    label = f"leader {number} dies, leader {number + 1} takes over"
    return label, _with_next_leader(state, scope)._replace(lease_was_given=False)


def _hand_over(state: State, scope: Scope) -> Move:
    number = state.leader + 1
    label = f"leader {number} stops and hands its lease to leader {number + 1}"
    return label, _with_next_leader(state, scope)._replace(lease_was_given=True)


def _with_next_leader(state: State, scope: Scope) -> State:
    number = state.leader + 1
    state = state._replace(leader=number, awaits=frozenset())
    return caught_up(state, LEADER + number) if scope.keeps(Clause.RELIST) else state


def _may_give_back(state: State, scope: Scope) -> bool:
    own = FROM_LEADER + state.leader
    return not any(
        scope.keeps(Clause.OWN_SETTLED if each.sender == own else Clause.EARLIER_SETTLED)
        for each in state.requests
        if each.sender >= FROM_LEADER
    )


def _writes(state: State, scope: Scope) -> Iterator[Move]:
    for view, seen in views(state, LEADER + state.leader):
        for request in _intents(view, seen, scope):
            if guard_holds(view, request, scope) and _has_turn(view, request, scope):
                label = f"leader {view.leader + 1} sends {describe(request, scope)}"
                yield label, view.send(request)._replace(awaits=view.awaits | {request})


def _has_turn(state: State, request: Request, scope: Scope) -> bool:
    """Return whether no other worker writes to the object, or to a unit of the same operation."""
    subject = _subject(state, request, scope)
    return all(_subject(state, each, scope) != subject for each in state.awaits)


def _subject(state: State, request: Request, scope: Scope) -> tuple[str, int | str]:
    match request.verb:
        case Verb.START | Verb.REMOVE | Verb.LOSE:
            unit = state.units_by_name[request.target]
            if unit and scope.keeps(Clause.ONE_TURN):
                return ("operation", unit.operation)
            return ("unit", request.target)
        case Verb.CONSUME | Verb.FREE | Verb.REPORT:
            return ("stock", request.target)
        case _:
            return ("pool", 0)


def _intents(state: State, seen: Seen, scope: Scope) -> Iterator[Request]:
    for name, unit in enumerate(seen.units_by_name):
        if unit and not unit.has_started:
            yield from _unit_writes(state, seen, scope, name, unit)
    yield from _claim_writes(state, seen, scope)
    if scope.is_rolling:
        yield from _rollout_writes(state, seen)
    if scope.is_seeding:
        yield from _pool_writes(state, seen, scope)


def _unit_writes(
    state: State, seen: Seen, scope: Scope, name: int, unit: Unit
) -> Iterator[Request]:
    sender = FROM_LEADER + state.leader
    found = gate(_situation(state, seen, scope, name, unit), scope)
    match found:
        case Gate.START:
            yield Request(Verb.START, sender, name, unit.uid)
        case Gate.REMOVE:
            yield Request(Verb.REMOVE, sender, name, unit.uid)
        case Gate.LOSE if not unit.has_lost:
            yield Request(Verb.LOSE, sender, name, unit.uid)
        case _:
            return


def _situation(state: State, seen: Seen, scope: Scope, name: int, unit: Unit) -> Situation:
    """Return what the gate sees. Rivals, tombstone and stock are live; with rivals also the
    starts.
    """
    rivals = []
    for other, cached in enumerate(seen.units_by_name):
        live = state.units_by_name[other]
        if not cached or not live or cached.uid != live.uid or other == name:
            continue
        if live.operation == unit.operation:
            is_told = scope.keeps(Clause.LIVE_RIVALS)
            has_started = live.has_started if is_told else cached.has_started
            rivals.append((other, live._replace(has_started=has_started)))
    stock = [each for each in state.stock_by_ordinal if each and each.uid == unit.source]
    own = state.units_by_name[name]
    if rivals and own and own.uid == unit.uid and scope.keeps(Clause.LIVE_RIVALS):
        unit = unit._replace(has_started=own.has_started)
    return Situation(
        unit=unit,
        name=name,
        rivals=tuple(rivals),
        has_tombstone=_has_tombstone(state, name, unit),
        stock=stock[0] if stock else None,
        is_unsettled=_may_start_yet(state, scope),
    )


def _has_tombstone(state: State, name: int, unit: Unit) -> bool:
    uids = [
        uid
        for operation, buried_name, uid in state.tombstones
        if (operation, buried_name) == (unit.operation, name)
    ]
    return bool(uids) and unit.uid not in uids


def _may_start_yet(state: State, scope: Scope) -> bool:
    """Return whether a start may land: an earlier leader's, or an own one without an answer."""
    possible = _may_land(state) - state.awaits
    starts = [each for each in possible if each.verb is Verb.START]
    own = FROM_LEADER + state.leader
    return any(
        scope.keeps(Clause.LOST_START if each.sender == own else Clause.CONFLICT_WAIT)
        for each in starts
    )


def _may_land(state: State) -> frozenset[Request]:
    """Return the requests that may still land, as far as the leader can conclude from its term."""
    if not state.lease_was_given:
        return state.requests
    own = FROM_LEADER + state.leader
    return frozenset(each for each in state.requests if each.sender == own)


def _claim_writes(state: State, seen: Seen, scope: Scope) -> Iterator[Request]:
    sender = FROM_LEADER + state.leader
    for ordinal, stock in enumerate(seen.stock_by_ordinal):
        if not stock or not stock.mark:
            continue
        claimant = seen.units_by_name[stock.mark.name]
        found = resolve(stock, claimant, scope, is_recorded=ordinal + 1 <= seen.seeded)
        if found is Resolution.CONSUME:
            yield Request(Verb.CONSUME, sender, ordinal, stock.uid, stock.version)
        elif found is Resolution.DOUBT and _is_over(state, stock.mark, scope):
            live = state.units_by_name[stock.mark.name]
            is_lost = live is not None and live.has_lost
            is_kept = not is_doubtful(stock, live) and (
                not is_lost or scope.keeps(Clause.LOSER_KEEPS_CLAIM)
            )
            if not is_kept or not scope.keeps(Clause.LIVE_LOOK):
                yield Request(Verb.FREE, sender, ordinal, stock.uid, stock.version)


def _is_over(state: State, mark: Mark, scope: Scope) -> bool:
    """Return whether the grace is over: no attempt that wrote the mark can create a unit."""
    if not scope.keeps(Clause.GRACE):
        return True
    held = {Step.CLAIMED, Step.CREATE} if scope.keeps(Clause.CREATE_BOUND) else {Step.CREATE}
    return not any(
        state.attempts[each].step in held or _has_create(state, each) for each in mark.stamps
    )


def _has_create(state: State, number: int) -> bool:
    return any(each.verb is Verb.CREATE and each.sender == number for each in state.requests)


def _rollout_writes(state: State, seen: Seen) -> Iterator[Request]:
    sender = FROM_LEADER + state.leader
    for ordinal, stock in enumerate(seen.stock_by_ordinal):
        if stock and follows(stock):
            yield Request(Verb.CHANGE, sender, ordinal, stock.uid, stock.version)
        elif stock and not stock.is_current:
            yield Request(Verb.REPORT, sender, ordinal, stock.uid, stock.version)


def _pool_writes(state: State, seen: Seen, scope: Scope) -> Iterator[Request]:
    sender = FROM_LEADER + state.leader
    taken = [unit.source // 10 for unit in seen.units_by_name if unit]
    planned = plan(scope, seen.seeded, seen.stock_by_ordinal, taken)
    is_settled = not any(each.verb is Verb.MAKE for each in _may_land(state))
    if planned.recordable > seen.seeded and (is_settled or not scope.keeps(Clause.RECORD_LATE)):
        yield Request(Verb.RECORD, sender, 0, seen.seeded, planned.recordable)
    if planned.make is not None and planned.make <= scope.ordinals:
        # A create whose answer was lost must be a different request than the next create.
        yield Request(Verb.MAKE, sender, planned.make - 1, version=state.lost_answers)
    for ordinal in planned.removes:
        stock = seen.stock_by_ordinal[ordinal - 1]
        if stock:
            yield Request(Verb.SHRINK, sender, ordinal - 1, stock.uid, stock.version)
