"""Pure decision: what to do for a function, by the observation of its units and its queue."""

from collections.abc import Iterator, Mapping
from typing import Final, TypeAlias

import attrs

from gpuruntime.models.kinds.functions import Serverless, ServerlessStatus
from gpuruntime.models.kinds.units import GPUUnit
from gpuruntime.serverless.scaling.status import status_of
from gpuruntime.serverless.scaling.worker_plan import (
    DRAINING_SECONDS,
    Shortage,
    WorkerGroup,
    WorkerPhase,
    WorkerPlan,
    plan_workers,
)

# Of one kind and per function, so that a large one does not flood the cluster.
MOST_AT_ONCE: Final = 16
# The retry interval while the queue's content is unknown.
UNKNOWN_DEPTH_SECONDS: Final = 5.0


@attrs.frozen(kw_only=True, slots=True)
class Owner:
    """The unit that declares a function, with its workers.

    `free_names` are the next names of workers. `falls_in_seconds` is when fewer workers may be
    needed; `held_seconds` is how long no claim is made after a failed one. Both may be None.
    """

    template: GPUUnit
    workers: WorkerGroup
    free_names: tuple[str, ...] = ()
    falls_in_seconds: float | None = None
    held_seconds: float | None = None


@attrs.frozen(kw_only=True, slots=True)
class Observed:
    """`owner` is None if no unit declares the function, and `grace_seconds` then says for how
    long this may be a delay of the cache.

    `strays` are the workers of units that own it no more. `units` has all workers by name.
    `depth` is None while it is unknown.
    """

    function: str
    owner: Owner | None
    strays: tuple[WorkerGroup, ...] = ()
    units: Mapping[str, GPUUnit] = attrs.field(factory=dict)
    depth: int | None = None
    grace_seconds: float = 0.0


@attrs.frozen(slots=True)
class EnsureConsumer:
    """Create the function's consumer, without which workers get nothing."""


@attrs.frozen(slots=True)
class EndEarlierInvocations:
    """End what was accepted for another declarer than this one, which is a uid."""

    declarer: str


@attrs.frozen(slots=True)
class EndAllInvocations:
    """End all invocations and delete the consumer, since no unit declares the function."""


@attrs.frozen(slots=True)
class Claim:
    """Claim stock for a new worker of the template."""

    name: str
    template: GPUUnit
    function: Serverless


@attrs.frozen(slots=True)
class Delete:
    """Delete a worker that has drained or never will."""

    name: str


@attrs.frozen(slots=True)
class Drain:
    """Mark a worker as draining, and order it to drain."""

    name: str
    is_replacement: bool = False


@attrs.frozen(slots=True)
class OrderDrain:
    """Repeat the order to drain, which is not acknowledged."""

    name: str


Intent: TypeAlias = (
    EnsureConsumer
    | EndEarlierInvocations
    | EndAllInvocations
    | Claim
    | Delete
    | Drain
    | OrderDrain
)


@attrs.frozen(kw_only=True, slots=True)
class Plan:
    """Intents that do not depend on each other, and the status if a unit declares the function.

    If a plan `waits_for_stock`, more free stock may change it.
    """

    intents: tuple[Intent, ...] = ()
    status: ServerlessStatus | None = None
    waits_for_stock: bool = False
    is_cold_start: bool = False
    look_again_seconds: float | None = None


def decide(seen: Observed) -> Plan:
    strays = [intent for group in seen.strays for intent in _removals(group, plan_workers(group))]
    plan = _declared(seen, seen.owner) if seen.owner else _undeclared(seen)
    stray_seconds = DRAINING_SECONDS if seen.strays else None
    return attrs.evolve(
        plan,
        intents=(*strays, *plan.intents),
        look_again_seconds=earliest(stray_seconds, plan.look_again_seconds),
    )


def earliest(*seconds: float | None) -> float | None:
    """Return the shortest of the times; None stands for no time."""
    return min((each for each in seconds if each is not None), default=None)


def _undeclared(seen: Observed) -> Plan:
    if seen.grace_seconds > 0:
        return Plan(look_again_seconds=seen.grace_seconds)
    if seen.depth is None:
        return Plan(look_again_seconds=UNKNOWN_DEPTH_SECONDS)
    return Plan(intents=(EndAllInvocations(),))


def _declared(seen: Observed, owner: Owner) -> Plan:
    group, found = owner.workers, plan_workers(owner.workers)
    has_consumer = group.forbidden not in (Shortage.INVALID, Shortage.NO_TEMPLATE)
    names = owner.free_names[: min(found.claims, MOST_AT_ONCE)]
    has_lost = any(worker.phase is WorkerPhase.ADRIFT for worker in group.workers)
    status = status_of(group, found, depth=seen.depth or 0)
    return Plan(
        intents=(
            *((EnsureConsumer(),) if has_consumer else ()),
            EndEarlierInvocations(owner.template.metadata.uid),
            *(Claim(name, owner.template, group.limits) for name in names),
            *_removals(group, found),
        ),
        status=status,
        waits_for_stock=found.shortage is Shortage.CAPACITY or has_lost,
        is_cold_start=bool(names) and not status.readyWorkers,
        look_again_seconds=earliest(
            found.look_again_seconds, owner.falls_in_seconds, owner.held_seconds
        ),
    )


def _removals(group: WorkerGroup, found: WorkerPlan) -> Iterator[Intent]:
    for name in found.delete[:MOST_AT_ONCE]:
        yield Delete(name)
    for name in found.drain[:MOST_AT_ONCE]:
        yield Drain(name, is_replacement=name == found.replaced)
    for worker in group.workers:
        if worker.phase is WorkerPhase.DRAINING and worker.name not in found.delete:
            yield OrderDrain(worker.name)
