"""The API server: it compares the guard of a write that lands, and does or refuses the write."""

from collections.abc import Iterator

from tests.proofs.model.clauses import Clause
from tests.proofs.model.state import (
    FROM_LEADER,
    NAMES,
    History,
    Mark,
    Request,
    Scope,
    State,
    Stock,
    Unit,
    Verb,
    replaced,
)


def apply(state: State, request: Request, scope: Scope) -> Iterator[tuple[State, bool]]:
    """Yield each possible next state, and whether the write was done."""
    state = state._replace(requests=state.requests - {request})
    if not guard_holds(state, request, scope):
        yield state, False
    elif request.verb is Verb.CREATE:
        yield from ((each, True) for each in _created(state, request, scope))
    else:
        yield _written(state, request, scope), True


def guard_holds(state: State, request: Request, scope: Scope) -> bool:
    """Return whether the write's guard holds, as far as the active clauses require one."""
    match request.verb:
        case Verb.CREATE:
            return state.units_by_name[scope.orders[request.sender].name] is None
        case Verb.START | Verb.REMOVE | Verb.LOSE:
            unit = state.units_by_name[request.target]
            return unit is not None and unit.uid == request.uid
        case Verb.MAKE:
            return state.stock_by_ordinal[request.target] is None
        case Verb.RECORD:
            return state.seeded == request.uid
        case _:
            stock = state.stock_by_ordinal[request.target]
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
        case Verb.CHANGE:
            return scope.keeps(Clause.GUARDED_CHANGE)
        case _:
            return True


def _created(state: State, request: Request, scope: Scope) -> Iterator[State]:
    order = scope.orders[request.sender]
    uid = state.history.uids + 1
    is_late = (order.operation, order.name) in state.history.ended
    made = state._replace(history=state.history._replace(uids=uid))
    if state.attempts[request.sender].is_late:
        made = made.fault("a finished operation creates a unit")
    for rank in (0, 1) if scope.has_ties else (uid,):
        unit = Unit(uid, order.operation, order.body, request.uid, rank, is_late)
        yield made.put_unit(order.name, unit)


def _written(state: State, request: Request, scope: Scope) -> State:
    match request.verb:
        case Verb.CLAIM | Verb.RESTAMP:
            return _marked(state, request, scope)
        case Verb.RELEASE | Verb.FREE:
            stock = _stock(state, request)
            return state.put_stock(
                request.target, stock._replace(version=stock.version + 1, mark=None)
            )
        case Verb.CONSUME | Verb.SHRINK:
            return _with_faults(state, request).put_stock(request.target, None)
        case Verb.CHANGE | Verb.REPORT:
            return _rolled(state, request)
        case Verb.MAKE:
            return _made(state, request, scope)
        case Verb.RECORD:
            return state._replace(pool=(*state.pool, request.version))
        case _:
            return _changed(state, request)


def _marked(state: State, request: Request, scope: Scope) -> State:
    order, stock = scope.orders[request.sender], _stock(state, request)
    stamps = frozenset({request.sender})
    if request.verb is Verb.RESTAMP and stock.mark:
        stamps |= stock.mark.stamps
    elif not stock.is_current:
        state = state.fault("stock is claimed before it runs its present spec")
    elif scope.is_seeding:
        state = state._replace(history=state.history._replace(claims=state.history.claims + 1))
    mark = Mark(order.operation, order.body, order.name, stamps)
    return state.put_stock(request.target, stock._replace(version=stock.version + 1, mark=mark))


def _rolled(state: State, request: Request) -> State:
    """Give the stock unit the spec of its pool, or report that it runs it."""
    stock = _stock(state, request)
    if request.verb is Verb.CHANGE and stock.mark is not None:
        state = state.fault("claimed stock changes what it runs")
    is_current = request.verb is Verb.REPORT
    rolled = stock._replace(version=stock.version + 1, is_stale=False, is_current=is_current)
    return state.put_stock(request.target, rolled)


def _made(state: State, request: Request, scope: Scope) -> State:
    times = state.history.made[request.target] + 1
    history: History = state.history._replace(
        made=replaced(state.history.made, request.target, times)
    )
    stock = Stock(uid=request.target * 10 + 10 + times, version=1, mark=None)
    state = state._replace(history=history).put_stock(request.target, stock)
    if times > 1:
        state = state.fault("an ordinal is created twice")
    if sum(history.made) > scope.replicas + (history.claims if scope.is_refilled else 0):
        state = state.fault("a pool creates more units than requested")
    return state


def _changed(state: State, request: Request) -> State:
    unit = state.units_by_name[request.target]
    if unit is None:
        raise LookupError(request)
    if request.verb is Verb.REMOVE:
        return state.put_unit(request.target, None)
    if request.verb is Verb.LOSE:
        return state.put_unit(request.target, unit._replace(has_lost=True))
    history = state.history
    if unit.has_lost and not unit.has_started and unit.operation in history.started:
        state = state.fault("a unit starts after it has lost to another one")
    history = state.history._replace(
        started=history.started | {unit.operation}, consumed_by=history.consumed_by | {unit.source}
    )
    state = state._replace(history=history)
    return state.put_unit(request.target, unit._replace(has_started=True))


def _with_faults(state: State, request: Request) -> State:
    stock = _stock(state, request)
    if request.verb is Verb.SHRINK and stock.mark is not None:
        return state.fault("claimed stock is deleted as surplus")
    if request.verb is Verb.CONSUME and stock.uid not in state.history.consumed_by:
        return state.fault("stock is consumed before a unit has started on it")
    return state


def _stock(state: State, request: Request) -> Stock:
    stock = state.stock_by_ordinal[request.target]
    if stock is None:
        raise LookupError(request)
    return stock


def describe(request: Request, scope: Scope) -> str:
    """Return the request in words."""
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
