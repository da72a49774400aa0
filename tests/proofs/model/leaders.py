"""The moves of whoever leads: units pass the gate, claims come to an end, pools are seeded.

A worker of a leader waits for the answer to its write before the next. A leader that dies, or
loses an answer, leaves the write on its way; one that stops in order gives its lease back.
"""

from collections.abc import Iterator

from tests.proofs.model.caches import Seen, caught_up, glimpses, oldest
from tests.proofs.model.clauses import Clause
from tests.proofs.model.decisions import Fate, Gate, Situation, fate, gate, is_doubtful, plan
from tests.proofs.model.landing import fits, told
from tests.proofs.model.world import (
    FROM_LEADER,
    LEADER,
    Mark,
    Move,
    Request,
    Scope,
    Step,
    Unit,
    Verb,
    World,
)


def moves(world: World, scope: Scope) -> Iterator[Move]:
    if not scope.leaders:
        return
    if world.leader + 1 < scope.leaders:
        yield _succession(world, scope)
        if scope.hands_over and _may_give_back(world, scope):
            yield _hand_over(world, scope)
    if len(world.awaits) < scope.workers:
        yield from oldest(LEADER + world.leader, _writes(world, scope))
    if world.lost_answers:
        for request in sorted(world.awaits):
            label = f"leader {world.leader + 1} loses the answer to {told(request, scope)}"
            yield label, _deaf_to(world, request)


def heard(world: World, request: Request) -> World:
    """The leader's cache takes its own write, or what it read where the write was refused."""
    world = caught_up_with(world, request)
    return world._replace(awaits=world.awaits - {request})


def _deaf_to(world: World, request: Request) -> World:
    awaits = world.awaits - {request}
    return world._replace(awaits=awaits, lost_answers=world.lost_answers - 1)


def caught_up_with(world: World, request: Request) -> World:
    reader = LEADER + request.sender - FROM_LEADER
    before = world.places[reader]
    after = caught_up(world, reader).places[reader]
    match request.verb:
        case Verb.START | Verb.REMOVE | Verb.LOSE:
            place = before._replace(units=after.units)
        case Verb.RECORD:
            place = before._replace(pool=after.pool)
        case _:
            place = before._replace(stock=after.stock)
    places = (*world.places[:reader], place, *world.places[reader + 1 :])
    return world._replace(places=places)


def _succession(world: World, scope: Scope) -> Move:
    number = world.leader + 1
    label = f"leader {number} dies, leader {number + 1} takes over"
    return label, _followed(world, scope)._replace(is_given=False)


def _hand_over(world: World, scope: Scope) -> Move:
    number = world.leader + 1
    label = f"leader {number} stops, and leader {number + 1} is given its lease"
    return label, _followed(world, scope)._replace(is_given=True)


def _followed(world: World, scope: Scope) -> World:
    number = world.leader + 1
    world = world._replace(leader=number, awaits=frozenset())
    return caught_up(world, LEADER + number) if scope.keeps(Clause.RELIST) else world


def _may_give_back(world: World, scope: Scope) -> bool:
    own = FROM_LEADER + world.leader
    return not any(
        scope.keeps(Clause.OWN_SETTLED if each.sender == own else Clause.EARLIER_SETTLED)
        for each in world.requests
        if each.sender >= FROM_LEADER
    )


def _writes(world: World, scope: Scope) -> Iterator[Move]:
    for view, seen in glimpses(world, LEADER + world.leader):
        for request in _intents(view, seen, scope):
            if fits(view, request, scope) and _has_turn(view, request, scope):
                label = f"leader {view.leader + 1} sends {told(request, scope)}"
                yield label, view.send(request)._replace(awaits=view.awaits | {request})


def _has_turn(world: World, request: Request, scope: Scope) -> bool:
    """One worker at a time for one object, and for the units of one operation."""
    subject = _subject(world, request, scope)
    return all(_subject(world, each, scope) != subject for each in world.awaits)


def _subject(world: World, request: Request, scope: Scope) -> tuple[str, int | str]:
    match request.verb:
        case Verb.START | Verb.REMOVE | Verb.LOSE:
            unit = world.roster[request.target]
            if unit and scope.keeps(Clause.ONE_TURN):
                return ("operation", unit.operation)
            return ("unit", request.target)
        case Verb.CONSUME | Verb.FREE:
            return ("stock", request.target)
        case _:
            return ("pool", 0)


def _intents(world: World, seen: Seen, scope: Scope) -> Iterator[Request]:
    for name, unit in enumerate(seen.roster):
        if unit and not unit.has_started:
            yield from _of_unit(world, seen, scope, name, unit)
    yield from _of_claims(world, seen, scope)
    if scope.is_seeding:
        yield from _of_pool(world, seen, scope)


def _of_unit(world: World, seen: Seen, scope: Scope, name: int, unit: Unit) -> Iterator[Request]:
    sender = FROM_LEADER + world.leader
    found = gate(_situation(world, seen, scope, name, unit), scope)
    match found:
        case Gate.START:
            yield Request(Verb.START, sender, name, unit.uid)
        case Gate.REMOVE:
            yield Request(Verb.REMOVE, sender, name, unit.uid)
        case Gate.LOSE if not unit.has_lost:
            yield Request(Verb.LOSE, sender, name, unit.uid)
        case _:
            return


def _situation(world: World, seen: Seen, scope: Scope, name: int, unit: Unit) -> Situation:
    """Rivals, the tombstone and the stock are read live, and among rivals the start as well."""
    rivals = []
    for other, cached in enumerate(seen.roster):
        live = world.roster[other]
        if not cached or not live or cached.uid != live.uid or other == name:
            continue
        if live.operation == unit.operation:
            is_told = scope.keeps(Clause.LIVE_RIVALS)
            has_started = live.has_started if is_told else cached.has_started
            rivals.append((other, live._replace(has_started=has_started)))
    stock = [each for each in world.shelf if each and each.uid == unit.source]
    own = world.roster[name]
    if rivals and own and own.uid == unit.uid and scope.keeps(Clause.LIVE_RIVALS):
        unit = unit._replace(has_started=own.has_started)
    return Situation(
        unit=unit,
        name=name,
        rivals=tuple(rivals),
        is_buried=_is_buried(world, name, unit),
        stock=stock[0] if stock else None,
        is_unsettled=_may_start_yet(world, scope),
    )


def _is_buried(world: World, name: int, unit: Unit) -> bool:
    uids = [
        uid
        for operation, buried, uid in world.tombstones
        if (operation, buried) == (unit.operation, name)
    ]
    return bool(uids) and unit.uid not in uids


def _may_start_yet(world: World, scope: Scope) -> bool:
    """Whether an earlier leader's start is on its way, or one of this leader that it lost."""
    reckoned = _reckoned_with(world) - world.awaits
    starts = [each for each in reckoned if each.verb is Verb.START]
    own = FROM_LEADER + world.leader
    return any(
        scope.keeps(Clause.LOST_START if each.sender == own else Clause.CONFLICT_WAIT)
        for each in starts
    )


def _reckoned_with(world: World) -> frozenset[Request]:
    """What may yet land, as far as who leads can tell by its term."""
    if not world.is_given:
        return world.requests
    own = FROM_LEADER + world.leader
    return frozenset(each for each in world.requests if each.sender == own)


def _of_claims(world: World, seen: Seen, scope: Scope) -> Iterator[Request]:
    sender = FROM_LEADER + world.leader
    for ordinal, stock in enumerate(seen.shelf):
        if not stock or not stock.mark:
            continue
        claimant = seen.roster[stock.mark.name]
        found = fate(stock, claimant, scope, is_recorded=ordinal + 1 <= seen.seeded)
        if found is Fate.CONSUME:
            yield Request(Verb.CONSUME, sender, ordinal, stock.uid, stock.version)
        elif found is Fate.DOUBT and _is_over(world, stock.mark, scope):
            live = world.roster[stock.mark.name]
            is_lost = live is not None and live.has_lost
            is_kept = not is_doubtful(stock, live) and (
                not is_lost or scope.keeps(Clause.LOSER_KEEPS_CLAIM)
            )
            if not is_kept or not scope.keeps(Clause.LIVE_LOOK):
                yield Request(Verb.FREE, sender, ordinal, stock.uid, stock.version)


def _is_over(world: World, mark: Mark, scope: Scope) -> bool:
    """The grace: longer than any attempt that wrote the mark can take to its create's end."""
    if not scope.keeps(Clause.GRACE):
        return True
    held = {Step.CLAIMED, Step.CREATE} if scope.keeps(Clause.CREATE_BOUND) else {Step.CREATE}
    return not any(
        world.attempts[each].step in held or _has_create(world, each) for each in mark.stamps
    )


def _has_create(world: World, number: int) -> bool:
    return any(each.verb is Verb.CREATE and each.sender == number for each in world.requests)


def _of_pool(world: World, seen: Seen, scope: Scope) -> Iterator[Request]:
    sender = FROM_LEADER + world.leader
    taken = [unit.source // 10 for unit in seen.roster if unit]
    planned = plan(scope, seen.seeded, seen.shelf, taken)
    is_settled = not any(each.verb is Verb.MAKE for each in _reckoned_with(world))
    if planned.recordable > seen.seeded and (is_settled or not scope.keeps(Clause.RECORD_LATE)):
        yield Request(Verb.RECORD, sender, 0, seen.seeded, planned.recordable)
    if planned.make is not None and planned.make <= scope.ordinals:
        # One whose answer was lost is another request than the one that follows it.
        yield Request(Verb.MAKE, sender, planned.make - 1, version=world.lost_answers)
    for ordinal in planned.removes:
        stock = seen.shelf[ordinal - 1]
        if stock:
            yield Request(Verb.SHRINK, sender, ordinal - 1, stock.uid, stock.version)
