"""Pure decision: how many workers a function needs, and the next steps towards that.

There are deliberately few steps: claim missing workers, drain surplus ones, delete drained ones. A
draining worker takes no invocations and is never kept. So it still occupies a seat but no longer
counts as a worker.

An update replaces one worker at a time: the successor is claimed first and may exceed `maxWorkers`
by one. Once it is ready, the outdated worker is surplus. `update: Recreate` drains that one first.
"""

from collections.abc import Callable, Collection
from enum import StrEnum
from itertools import count, islice
from typing import Final

import attrs

from gpuruntime.models.kinds.functions import Serverless, worker_name

# Three heartbeats. A worker that misses them has ended or is cut off from the broker.
SILENT_SECONDS: Final = 15.0
# Added to the longest attempt of a draining worker.
DRAIN_SLACK_SECONDS: Final = 30.0
# By then a restarting node is back, and an evicted Pod runs on another one.
LASTING_SECONDS: Final = 120.0
FIRST_REPLACEMENT_SECONDS: Final = 10.0
LONGEST_REPLACEMENT_SECONDS: Final = 600.0
# How often a state is checked that no event reports.
DRAINING_SECONDS: Final = 1.0
UNSETTLED_SECONDS: Final = 10.0


class WorkerPhase(StrEnum):
    """The phase of a worker.

    `adrift` means that no node takes it, that its node is silent, or that it drains although this
    leader did not order it. Its container has not failed.
    """

    STARTING = "starting"
    READY = "ready"
    FAILED = "failed"
    ADRIFT = "adrift"
    DRAINING = "draining"
    GONE = "gone"


class Shortage(StrEnum):
    """Why a function has fewer workers than it needs, or none at all."""

    SUSPENDED = "suspended"
    NO_TEMPLATE = "no_worker_template"
    INVALID = "invalid_spec"
    NO_QUEUE = "queue_unknown"
    CAPACITY = "insufficient_capacity"
    WORKER_FAILED = "worker_failed"
    WORKER_LOST = "worker_lost"


@attrs.frozen(kw_only=True, slots=True)
class Worker:
    """A worker, as the plan sees it.

    `since_seconds` is how long this leader has seen it drain or be adrift. A worker `is_silent` if
    its heartbeats are missing, and not `is_current` if its template has changed since. A worker
    that `has_withdrawn` drains, whatever the order came from, and never takes another invocation.
    A `gone` worker waits only for Kubernetes to delete it. `fault` is what its failing container
    reports, with the image.
    """

    name: str
    phase: WorkerPhase
    is_current: bool = True
    has_drained: bool = False
    has_withdrawn: bool = False
    is_silent: bool = False
    busy: int = 0
    since_seconds: float = 0.0
    fault: str = ""

    @property
    def is_leaving(self) -> bool:
        return self.phase in (WorkerPhase.DRAINING, WorkerPhase.GONE)


@attrs.frozen(kw_only=True, slots=True)
class WorkerGroup:
    """The workers of one unit for a function, and what bounds them.

    `needed` is None while the amount of work is unknown. `forbidden` says why no worker may run at
    all. `free_stock` is how much could be claimed now. If an update is `recreating`, outdated
    workers are drained before their successors are claimed.
    """

    limits: Serverless
    workers: tuple[Worker, ...]
    needed: int | None
    free_stock: int
    forbidden: Shortage | None = None
    replacement_in_seconds: float = 0.0
    recreating: bool = False

    @property
    def staying(self) -> tuple[Worker, ...]:
        return tuple(worker for worker in self.workers if not worker.is_leaving)


@attrs.frozen(kw_only=True, slots=True)
class WorkerPlan:
    """`drain` and `delete` are names; `replaced` is the lost worker among `drain`."""

    wanted: int
    claims: int = 0
    drain: tuple[str, ...] = ()
    delete: tuple[str, ...] = ()
    replaced: str = ""
    shortage: Shortage | None = None
    look_again_seconds: float | None = None


def workers_for(depth: int, limits: Serverless) -> int:
    """Return how many workers the depth needs, regardless of the function's bounds."""
    return -(-depth // limits.concurrency)


def plan_workers(seen: WorkerGroup) -> WorkerPlan:
    wanted = _wanted(seen)
    staying = seen.staying
    delete = tuple(worker.name for worker in seen.workers if _may_be_deleted(worker, seen.limits))
    surplus = len(staying) - wanted
    successor = _starting_successor(seen, staying) if wanted and surplus > 0 else None
    drainable = sorted((each for each in staying if each is not successor), key=_drain_order)
    if len(drainable) > wanted:
        drain = tuple(worker.name for worker in drainable[: len(drainable) - wanted])
        plan = WorkerPlan(wanted=wanted, drain=drain, delete=delete, shortage=seen.forbidden)
    elif surplus < 0:
        claims, shortage = _claims(seen, staying, -surplus)
        replaced = "" if claims else _replaced(seen, staying, may_claim=False)
        plan = WorkerPlan(
            wanted=wanted,
            claims=claims,
            drain=(replaced,) if replaced else (),
            delete=delete,
            replaced=replaced,
            shortage=shortage,
        )
    else:
        replaced = _replaced(seen, staying, may_claim=seen.free_stock > 0)
        step = WorkerPlan(wanted=wanted) if replaced else _update_step(seen, wanted)
        plan = attrs.evolve(
            step,
            drain=(replaced,) if replaced else step.drain,
            delete=delete,
            replaced=replaced,
            shortage=seen.forbidden or step.shortage or _trouble(staying),
        )
    return attrs.evolve(plan, look_again_seconds=_look_again_seconds(seen, plan))


def replacement_seconds(replaced: int) -> float:
    """Return how long to wait after this many replacements in a row before the next one."""
    doubled = FIRST_REPLACEMENT_SECONDS * 2.0 ** min(max(replaced - 1, 0), 16)
    return min(doubled, LONGEST_REPLACEMENT_SECONDS)


def next_names(template: str, is_taken: Callable[[str], bool], wanted: int) -> tuple[str, ...]:
    """Return the names of new workers, with the lowest free numbers."""
    names = (worker_name(template, number) for number in count(1))
    return tuple(islice((name for name in names if not is_taken(name)), wanted))


def _wanted(seen: WorkerGroup) -> int:
    """Return how many workers to have; if the work is unknown, keep the present ones."""
    limits = seen.limits
    if seen.forbidden:
        return 0
    needed = seen.needed
    if needed is None:
        needed = len(seen.staying)
    return min(max(needed, limits.minAvailableCount), limits.maxWorkers)


def workers_asked_for(workers: Collection[Worker]) -> int:
    """Return how many workers an earlier leader wanted, as far as its workers show it.

    During an update one of them may be a successor, which was claimed beside the others.
    """
    generations = {worker.is_current for worker in workers if not worker.is_leaving}
    return sum(not worker.is_leaving for worker in workers) - (len(generations) > 1)


def _claims(
    seen: WorkerGroup, staying: tuple[Worker, ...], missing: int
) -> tuple[int, Shortage | None]:
    """Return how many to claim, and why not all. Leaving workers still count to maxWorkers."""
    if _is_broken(staying):
        return 0, Shortage.WORKER_FAILED
    room = seen.limits.maxWorkers - len(seen.workers)
    asked = min(missing, max(room, 0))
    claims = min(asked, seen.free_stock)
    return claims, Shortage.CAPACITY if claims < asked else _trouble(staying)


def _is_broken(staying: tuple[Worker, ...]) -> bool:
    """Return whether a worker of the current template failed and none is ready.

    Such a template gets no more stock for now.
    """
    current = [worker.phase for worker in staying if worker.is_current]
    return WorkerPhase.FAILED in current and WorkerPhase.READY not in current


def _replaced(seen: WorkerGroup, staying: tuple[Worker, ...], *, may_claim: bool) -> str:
    """Return the worker that was lost for longest, if another can be claimed for it, or "".

    A withdrawn worker does not come back, so it is drained without that condition. The next stock
    may be waiting for its envelope.
    """
    lost = [
        worker
        for worker in staying
        if worker.phase is WorkerPhase.ADRIFT
        and worker.since_seconds >= LASTING_SECONDS
        and (may_claim or worker.has_withdrawn)
    ]
    if not lost or seen.replacement_in_seconds > 0:
        return ""
    return max(lost, key=lambda worker: worker.since_seconds).name


def _starting_successor(seen: WorkerGroup, staying: tuple[Worker, ...]) -> Worker | None:
    """Return the successor that an update waits for, or None; no worker is drained for it yet."""
    unready = [each for each in staying if each.is_current and each.phase is not WorkerPhase.READY]
    is_updating = any(not each.is_current for each in staying) and not seen.recreating
    return max(unready, key=_drain_order, default=None) if is_updating else None


def _update_step(seen: WorkerGroup, wanted: int) -> WorkerPlan:
    """Replace one outdated worker, if all current ones are ready and none is being replaced.

    A failing worker serves no call, so it is drained first: its envelope may be the last one.
    """
    nothing = WorkerPlan(wanted=wanted)
    outdated = [worker for worker in seen.workers if not worker.is_current]
    current = [worker for worker in seen.workers if worker.is_current]
    is_settled = all(worker.phase is WorkerPhase.READY for worker in current)
    if not outdated or not is_settled or any(worker.is_leaving for worker in outdated):
        return nothing
    if seen.needed is None:
        return nothing
    failed = [worker for worker in outdated if worker.phase is WorkerPhase.FAILED]
    if failed or seen.recreating:
        return attrs.evolve(nothing, drain=(min(failed or outdated, key=_drain_order).name,))
    if len(seen.workers) > seen.limits.maxWorkers:
        return nothing
    if not seen.free_stock:
        return attrs.evolve(nothing, shortage=Shortage.CAPACITY)
    return attrs.evolve(nothing, claims=1)


def _may_be_deleted(worker: Worker, limits: Serverless) -> bool:
    """Return whether a draining worker is idle, silent or overdue; its messages come back."""
    if worker.phase is not WorkerPhase.DRAINING:
        return False
    if worker.has_drained:
        return True
    silence = worker.is_silent and worker.since_seconds >= SILENT_SECONDS
    return silence or worker.since_seconds >= limits.timeoutSeconds + DRAIN_SLACK_SECONDS


def _drain_order(worker: Worker) -> tuple[bool, bool, int, int, str]:
    """Sort unready workers first, then outdated, then idle ones, then high numbers."""
    number = int(worker.name.rpartition("-")[2])
    return (
        worker.phase is WorkerPhase.READY,
        worker.is_current,
        worker.busy,
        -number,
        worker.name,
    )


def _trouble(staying: tuple[Worker, ...]) -> Shortage | None:
    phases = {worker.phase for worker in staying}
    if WorkerPhase.FAILED in phases:
        return Shortage.WORKER_FAILED
    return Shortage.WORKER_LOST if WorkerPhase.ADRIFT in phases else None


def _look_again_seconds(seen: WorkerGroup, plan: WorkerPlan) -> float | None:
    """Return when the plan may change although no event arrives, or None if it may not."""
    phases = {worker.phase for worker in seen.workers}
    if plan.drain or plan.delete or WorkerPhase.DRAINING in phases:
        return DRAINING_SECONDS
    if plan.shortage is Shortage.CAPACITY or phases & {WorkerPhase.STARTING, WorkerPhase.ADRIFT}:
        return UNSETTLED_SECONDS
    return None
