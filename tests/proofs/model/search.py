"""Every world that a scope allows, nearest first: each breach comes with a shortest way."""

import time
from collections.abc import Iterator

import attrs

from tests.proofs.model import callers, leaders, operators
from tests.proofs.model.caches import trimmed
from tests.proofs.model.invariants import breaches, unfinished
from tests.proofs.model.landing import fits, landed, told
from tests.proofs.model.world import FROM_LEADER, Move, Request, Scope, Verb, World, beginning


@attrs.frozen(kw_only=True, slots=True)
class Report:
    """`found` has a trace for each breach; it is complete where no limit ended the search."""

    worlds: int
    depth: int
    seconds: float
    is_complete: bool
    found: dict[str, tuple[str, ...]]


Origin = tuple[World, str] | None


def explore(scope: Scope, *, limit: int = 400_000, stops_at_breach: bool = False) -> Report:
    started = time.monotonic()
    first = _settled(beginning(scope), scope)
    origins: dict[World, Origin] = {first: None}
    found: dict[str, tuple[str, ...]] = {}
    depth, frontier = 0, [first]
    while frontier and len(origins) < limit and not (found and stops_at_breach):
        reached = []
        for world in frontier:
            broken = _judge(world, scope, origins, found)
            if broken:
                continue
            for label, following in successors(world, scope):
                if following not in origins:
                    origins[following] = (world, label)
                    reached.append(following)
        depth, frontier = depth + 1, reached
    return Report(
        worlds=len(origins),
        depth=depth,
        seconds=time.monotonic() - started,
        is_complete=not frontier,
        found=found,
    )


def successors(world: World, scope: Scope) -> Iterator[Move]:
    for label, following in _moves(world, scope):
        yield label, _settled(following, scope)


def _judge(
    world: World, scope: Scope, origins: dict[World, Origin], found: dict[str, tuple[str, ...]]
) -> bool:
    """Nothing is looked for behind a breach."""
    broken = breaches(world, scope)
    if not broken and next(_moves(world, scope), None) is None:
        broken = unfinished(world, scope)
    for each in broken:
        found.setdefault(each, trace(world, origins))
    return bool(broken)


def trace(world: World, origins: dict[World, Origin]) -> tuple[str, ...]:
    steps = []
    while origin := origins[world]:
        world, label = origin
        steps.append(label)
    return tuple(reversed(steps))


def _moves(world: World, scope: Scope) -> Iterator[Move]:
    yield from callers.moves(world, scope)
    yield from leaders.moves(world, scope)
    yield from operators.moves(world, scope)
    for request in sorted(world.requests):
        yield from _landings(world, request, scope)


def _landings(world: World, request: Request, scope: Scope) -> Iterator[Move]:
    label = told(request, scope)
    is_awaited = _is_awaited(world, request)
    if not is_awaited:
        yield f"{label} never lands", world._replace(requests=world.requests - {request})
    for after, is_done in landed(world, request, scope):
        said = f"{label} lands" if is_done else f"{label} is refused by its guard"
        if not is_awaited:
            yield said, after
        elif request.sender >= FROM_LEADER:
            yield said, leaders.heard(after, request)
        else:
            for more, heard in callers.heard(after, request, scope, is_done=is_done):
                yield f"{said}; {more}", heard
    if is_awaited and request.verb is Verb.CREATE and scope.has_refusals:
        yield from _refusal(world, request, scope)


def _refusal(world: World, request: Request, scope: Scope) -> Iterator[Move]:
    refused = world._replace(requests=world.requests - {request})
    more, heard = callers.Caller(scope, request.sender).refused(refused)
    yield f"{told(request, scope)} is refused for good; {more}", heard


def _is_awaited(world: World, request: Request) -> bool:
    if request.sender >= FROM_LEADER:
        return request in world.awaits
    return world.attempts[request.sender].sent == request


def _settled(world: World, scope: Scope) -> World:
    """A request that nobody awaits and that its guard will always refuse changes nothing."""
    kept = frozenset(
        each for each in world.requests if _is_awaited(world, each) or _may_fit(world, each, scope)
    )
    return trimmed(world._replace(requests=kept), scope)


def _may_fit(world: World, request: Request, scope: Scope) -> bool:
    """Names and ordinals may be free again; versions and uids never come back."""
    return request.verb in (Verb.CREATE, Verb.MAKE) or fits(world, request, scope)
