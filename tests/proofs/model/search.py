"""Breadth-first search of all states of a scope: each breach comes with a shortest trace."""

import time
from collections.abc import Iterator

import attrs

from tests.proofs.model import callers, leaders, operators
from tests.proofs.model.api_server import apply, describe, guard_holds
from tests.proofs.model.caches import without_seen_history
from tests.proofs.model.invariants import breaches, unfinished
from tests.proofs.model.state import FROM_LEADER, Move, Request, Scope, State, Verb, initial_state


@attrs.frozen(kw_only=True, slots=True)
class Report:
    """A search's result, with a trace for each breach; it is complete if no limit ended it."""

    states: int
    depth: int
    seconds: float
    is_complete: bool
    found: dict[str, tuple[str, ...]]


Origin = tuple[State, str] | None


def explore(scope: Scope, *, limit: int = 400_000, stops_at_breach: bool = False) -> Report:
    started = time.monotonic()
    first = _settled(initial_state(scope), scope)
    origins: dict[State, Origin] = {first: None}
    found: dict[str, tuple[str, ...]] = {}
    depth, frontier = 0, [first]
    while frontier and len(origins) < limit and not (found and stops_at_breach):
        reached = []
        for state in frontier:
            broken = _record_breaches(state, scope, origins, found)
            if broken:
                continue
            for label, following in successors(state, scope):
                if following not in origins:
                    origins[following] = (state, label)
                    reached.append(following)
        depth, frontier = depth + 1, reached
    return Report(
        states=len(origins),
        depth=depth,
        seconds=time.monotonic() - started,
        is_complete=not frontier,
        found=found,
    )


def successors(state: State, scope: Scope) -> Iterator[Move]:
    for label, following in _moves(state, scope):
        yield label, _settled(following, scope)


def _record_breaches(
    state: State, scope: Scope, origins: dict[State, Origin], found: dict[str, tuple[str, ...]]
) -> bool:
    """Record the breaches of a state; the search does not go on behind one."""
    broken = breaches(state, scope)
    if not broken and next(_moves(state, scope), None) is None:
        broken = unfinished(state, scope)
    for each in broken:
        found.setdefault(each, trace(state, origins))
    return bool(broken)


def trace(state: State, origins: dict[State, Origin]) -> tuple[str, ...]:
    steps = []
    while origin := origins[state]:
        state, label = origin
        steps.append(label)
    return tuple(reversed(steps))


def _moves(state: State, scope: Scope) -> Iterator[Move]:
    yield from callers.moves(state, scope)
    yield from leaders.moves(state, scope)
    yield from operators.moves(state, scope)
    for request in sorted(state.requests):
        yield from _landings(state, request, scope)


def _landings(state: State, request: Request, scope: Scope) -> Iterator[Move]:
    label = describe(request, scope)
    is_awaited = _is_awaited(state, request)
    if not is_awaited:
        yield f"{label} never lands", state._replace(requests=state.requests - {request})
    for after, is_done in apply(state, request, scope):
        said = f"{label} lands" if is_done else f"{label} is refused by its guard"
        if not is_awaited:
            yield said, after
        elif request.sender >= FROM_LEADER:
            yield said, leaders.after_answer(after, request)
        else:
            for more, after_answer in callers.after_answer(after, request, scope, is_done=is_done):
                yield f"{said}; {more}", after_answer
    if is_awaited and request.verb is Verb.CREATE and scope.has_refusals:
        yield from _refusal(state, request, scope)


def _refusal(state: State, request: Request, scope: Scope) -> Iterator[Move]:
    refused = state._replace(requests=state.requests - {request})
    more, after_answer = callers.Caller(scope, request.sender).refused(refused)
    yield f"{describe(request, scope)} is refused for good; {more}", after_answer


def _is_awaited(state: State, request: Request) -> bool:
    if request.sender >= FROM_LEADER:
        return request in state.awaits
    return state.attempts[request.sender].sent == request


def _settled(state: State, scope: Scope) -> State:
    """Drop requests that no process waits for and that their guard always refuses."""
    kept = frozenset(
        each for each in state.requests if _is_awaited(state, each) or _may_fit(state, each, scope)
    )
    return without_seen_history(state._replace(requests=kept), scope)


def _may_fit(state: State, request: Request, scope: Scope) -> bool:
    """Return whether the guard may hold later: only names and ordinals can be free again."""
    return request.verb in (Verb.CREATE, Verb.MAKE) or guard_holds(state, request, scope)
