"""What the API server does with a write when it lands: its guard is compared, or it is refused."""

from collections.abc import Iterator

from tests.proofs.model.clauses import Clause
from tests.proofs.model.world import (
    FROM_LEADER,
    NAMES,
    Mark,
    Past,
    Request,
    Scope,
    Stock,
    Unit,
    Verb,
    World,
    replaced,
)


def landed(world: World, request: Request, scope: Scope) -> Iterator[tuple[World, bool]]:
    """Each world that may come of it, and whether the write was done."""
    world = world._replace(requests=world.requests - {request})
    if not fits(world, request, scope):
        yield world, False
    elif request.verb is Verb.CREATE:
        yield from ((each, True) for each in _created(world, request, scope))
    else:
        yield _written(world, request, scope), True


def fits(world: World, request: Request, scope: Scope) -> bool:
    """The guard, as far as the clauses that hold demand one."""
    match request.verb:
        case Verb.CREATE:
            return world.roster[scope.orders[request.sender].name] is None
        case Verb.START | Verb.REMOVE | Verb.LOSE:
            unit = world.roster[request.target]
            return unit is not None and unit.uid == request.uid
        case Verb.MAKE:
            return world.shelf[request.target] is None
        case Verb.RECORD:
            return world.seeded == request.uid
        case _:
            stock = world.shelf[request.target]
            if stock is None or stock.uid != request.uid:
                return False
            return stock.version == request.version or not _is_guarded(request.verb, scope)


def _is_guarded(verb: Verb, scope: Scope) -> bool:
    match verb:
        case Verb.CLAIM:
            return scope.keeps(Clause.GUARDED_CLAIM)
        case Verb.RELEASE:
            return scope.keeps(Clause.GUARDED_RELEASE)
        case Verb.FREE:
            return scope.keeps(Clause.GUARDED_FREE)
        case Verb.CONSUME | Verb.SHRINK:
            return scope.keeps(Clause.GUARDED_DELETE)
        case _:
            return True


def _created(world: World, request: Request, scope: Scope) -> Iterator[World]:
    order = scope.orders[request.sender]
    uid = world.past.uids + 1
    is_late = (order.operation, order.name) in world.past.ended
    made = world._replace(past=world.past._replace(uids=uid))
    if world.attempts[request.sender].is_late:
        made = made.fault("a finished operation creates a unit")
    for rank in (0, 1) if scope.has_ties else (uid,):
        unit = Unit(uid, order.operation, order.body, request.uid, rank, is_late)
        yield made.put_unit(order.name, unit)


def _written(world: World, request: Request, scope: Scope) -> World:
    match request.verb:
        case Verb.CLAIM | Verb.RESTAMP:
            return _marked(world, request, scope)
        case Verb.RELEASE | Verb.FREE:
            stock = _stock(world, request)
            return world.put_stock(
                request.target, stock._replace(version=stock.version + 1, mark=None)
            )
        case Verb.CONSUME | Verb.SHRINK:
            return _judged(world, request).put_stock(request.target, None)
        case Verb.MAKE:
            return _made(world, request, scope)
        case Verb.RECORD:
            return world._replace(pool=(*world.pool, request.version))
        case _:
            return _changed(world, request)


def _marked(world: World, request: Request, scope: Scope) -> World:
    order, stock = scope.orders[request.sender], _stock(world, request)
    stamps = frozenset({request.sender})
    if request.verb is Verb.RESTAMP and stock.mark:
        stamps |= stock.mark.stamps
    elif scope.is_seeding:
        world = world._replace(past=world.past._replace(claims=world.past.claims + 1))
    mark = Mark(order.operation, order.body, order.name, stamps)
    return world.put_stock(request.target, stock._replace(version=stock.version + 1, mark=mark))


def _made(world: World, request: Request, scope: Scope) -> World:
    times = world.past.made[request.target] + 1
    past: Past = world.past._replace(made=replaced(world.past.made, request.target, times))
    stock = Stock(uid=request.target * 10 + 10 + times, version=1, mark=None)
    world = world._replace(past=past).put_stock(request.target, stock)
    if times > 1:
        world = world.fault("an ordinal is made twice")
    if sum(past.made) > scope.replicas + (past.claims if scope.is_refilled else 0):
        world = world.fault("a pool makes more than it was asked for")
    return world


def _changed(world: World, request: Request) -> World:
    unit = world.roster[request.target]
    if unit is None:
        raise LookupError(request)
    if request.verb is Verb.REMOVE:
        return world.put_unit(request.target, None)
    if request.verb is Verb.LOSE:
        return world.put_unit(request.target, unit._replace(has_lost=True))
    past = world.past
    if unit.has_lost and not unit.has_started and unit.operation in past.started:
        world = world.fault("a unit starts that was told of another one")
    past = world.past._replace(
        started=past.started | {unit.operation}, consumed_by=past.consumed_by | {unit.source}
    )
    world = world._replace(past=past)
    return world.put_unit(request.target, unit._replace(has_started=True))


def _judged(world: World, request: Request) -> World:
    stock = _stock(world, request)
    if request.verb is Verb.SHRINK and stock.mark is not None:
        return world.fault("claimed stock is removed as surplus")
    if request.verb is Verb.CONSUME and stock.uid not in world.past.consumed_by:
        return world.fault("stock is consumed before a unit has started on it")
    return world


def _stock(world: World, request: Request) -> Stock:
    stock = world.shelf[request.target]
    if stock is None:
        raise LookupError(request)
    return stock


def told(request: Request, scope: Scope) -> str:
    """A request in words."""
    if request.sender < FROM_LEADER:
        order = scope.orders[request.sender]
        what = f"of unit {NAMES[order.name]} naming" if request.verb is Verb.CREATE else "of"
        return f"attempt {request.sender + 1}'s {request.verb} {what} stock {request.target + 1}"
    number = request.sender - FROM_LEADER
    if request.verb in (Verb.START, Verb.REMOVE, Verb.LOSE):
        return f"leader {number + 1}'s {request.verb} of unit {NAMES[request.target]}"
    if request.verb is Verb.RECORD:
        return f"leader {number + 1}'s record of ordinal {request.version}"
    return f"leader {number + 1}'s {request.verb} of stock {request.target + 1}"
