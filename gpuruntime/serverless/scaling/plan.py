"""How many workers a function shall have, and the next steps towards that: decided purely.

The steps are few on purpose: claim what is missing, tell what is too much to drain, delete what
has drained. A worker that was told to drain takes no invocations any more and is never kept, so
it counts as a seat that is still taken, and no longer as a worker.
"""

from collections.abc import Callable
from enum import StrEnum
from itertools import count, islice
from typing import Final

import attrs

from gpuruntime.models.kinds.functions import Serverless, ServerlessStatus, worker_name

# Three beats: a worker that misses them has ended, or hears nobody.
SILENT_SECONDS: Final = 15.0
# Beside the longest attempt of a worker that was told to drain.
DRAIN_SLACK_SECONDS: Final = 30.0
# A node that restarts is back by then, and a Pod that was evicted has found its next one.
LASTING_SECONDS: Final = 120.0
FIRST_REPLACEMENT_SECONDS: Final = 10.0
LONGEST_REPLACEMENT_SECONDS: Final = 600.0
# How often what nobody tells of is looked at.
DRAINING_SECONDS: Final = 1.0
UNSETTLED_SECONDS: Final = 10.0


class WorkerPhase(StrEnum):
    """`adrift`: no node takes it, its node is silent, or it drains although nobody here told it
    to; no container of its own is at fault.
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
    """`since_seconds` is for how long it drains or is adrift, as this leader has seen it.

    A worker that is `silent` was not heard for a while, or never. One that is not `current` was
    made for a template that is another one by now. One that `has_withdrawn` drains, whoever told
    it to, and takes no invocation ever again. `gone` ones wait for Kubernetes alone.
    """

    name: str
    phase: WorkerPhase
    is_current: bool = True
    has_drained: bool = False
    has_withdrawn: bool = False
    is_silent: bool = False
    busy: int = 0
    since_seconds: float = 0.0

    @property
    def is_leaving(self) -> bool:
        return self.phase in (WorkerPhase.DRAINING, WorkerPhase.GONE)


@attrs.frozen(kw_only=True, slots=True)
class Observed:
    """`needed` is None while nobody can tell how much there is to do.

    `forbidden` says why no worker may run at all. `free_stock` is what could be claimed now.
    """

    limits: Serverless
    workers: tuple[Worker, ...]
    needed: int | None
    free_stock: int
    forbidden: Shortage | None = None
    replacement_in_seconds: float = 0.0


@attrs.frozen(kw_only=True, slots=True)
class Plan:
    """`drain` and `delete` are names; `replaced` is the one among `drain` that was lost."""

    wanted: int
    claims: int = 0
    drain: tuple[str, ...] = ()
    delete: tuple[str, ...] = ()
    replaced: str = ""
    shortage: Shortage | None = None
    look_again_seconds: float | None = None


def workers_for(depth: int, limits: Serverless) -> int:
    """Regardless of its bounds."""
    return -(-depth // limits.concurrency)


def decide(seen: Observed) -> Plan:
    wanted = _wanted(seen)
    staying = [worker for worker in seen.workers if not worker.is_leaving]
    delete = tuple(worker.name for worker in seen.workers if _may_go(worker, seen.limits))
    excess = len(staying) - wanted
    if excess > 0:
        drain = tuple(worker.name for worker in sorted(staying, key=_dispensability)[:excess])
        plan = Plan(wanted=wanted, drain=drain, delete=delete, shortage=seen.forbidden)
    elif excess < 0:
        claims, shortage = _claims(seen, staying, -excess)
        replaced = "" if claims else _replaced(seen, staying, may_claim=False)
        plan = Plan(
            wanted=wanted,
            claims=claims,
            drain=(replaced,) if replaced else (),
            delete=delete,
            replaced=replaced,
            shortage=shortage,
        )
    else:
        replaced = _replaced(seen, staying, may_claim=seen.free_stock > 0)
        exchanged = replaced or _outdated(seen)
        plan = Plan(
            wanted=wanted,
            drain=(exchanged,) if exchanged else (),
            delete=delete,
            replaced=replaced,
            shortage=seen.forbidden or _trouble(staying),
        )
    return attrs.evolve(plan, look_again_seconds=_look_again_seconds(seen, plan))


def replacement_seconds(replaced: int) -> float:
    """How long after so many lost workers in a row the next one is left alone."""
    doubled = FIRST_REPLACEMENT_SECONDS * 2.0 ** min(max(replaced - 1, 0), 16)
    return min(doubled, LONGEST_REPLACEMENT_SECONDS)


def next_names(template: str, is_taken: Callable[[str], bool], wanted: int) -> tuple[str, ...]:
    """With the lowest numbers of which the names are free."""
    names = (worker_name(template, number) for number in count(1))
    return tuple(islice((name for name in names if not is_taken(name)), wanted))


def status_of(
    seen: Observed, plan: Plan, *, depth: int, oldest_wait_seconds: float, failure: str = ""
) -> ServerlessStatus:
    """`failure` is the code of a claim that came to nothing, other than for want of stock."""
    workers = seen.workers
    return ServerlessStatus(
        desiredWorkers=plan.wanted,
        readyWorkers=sum(worker.phase is WorkerPhase.READY for worker in workers),
        busyWorkers=sum(worker.busy > 0 for worker in workers),
        drainingWorkers=sum(worker.is_leaving for worker in workers),
        depth=depth,
        oldestWaitSeconds=int(oldest_wait_seconds),
        reason=failure or (plan.shortage or ""),
    )


def _wanted(seen: Observed) -> int:
    """Without knowing what there is to do nobody is sent away, and nobody is called."""
    limits = seen.limits
    if seen.forbidden:
        return 0
    needed = seen.needed
    if needed is None:
        needed = sum(not worker.is_leaving for worker in seen.workers)
    return min(max(needed, limits.minAvailableCount), limits.maxWorkers)


def _claims(seen: Observed, staying: list[Worker], missing: int) -> tuple[int, Shortage | None]:
    """Those that leave still have their seats: there are never more than maxWorkers units."""
    if _is_broken(staying):
        return 0, Shortage.WORKER_FAILED
    room = seen.limits.maxWorkers - len(seen.workers)
    asked = min(missing, max(room, 0))
    claims = min(asked, seen.free_stock)
    return claims, Shortage.CAPACITY if claims < asked else _trouble(staying)


def _is_broken(staying: list[Worker]) -> bool:
    """A template of which a worker fails and none was ready gets no more stock for now."""
    current = [worker.phase for worker in staying if worker.is_current]
    return WorkerPhase.FAILED in current and WorkerPhase.READY not in current


def _replaced(seen: Observed, staying: list[Worker], *, may_claim: bool) -> str:
    """The one that is lost for longest, as soon as another one can be claimed for it.

    One that has withdrawn does not come back, and goes without that: its envelope may be what
    the next stock waits for.
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


def _outdated(seen: Observed) -> str:
    """One at a time: the next one once all that were made anew are ready."""
    outdated = [worker for worker in seen.workers if not worker.is_current]
    current = [worker for worker in seen.workers if worker.is_current]
    is_settled = all(worker.phase is WorkerPhase.READY for worker in current)
    if not outdated or not is_settled or any(worker.is_leaving for worker in outdated):
        return ""
    return min(outdated, key=_dispensability).name


def _may_go(worker: Worker, limits: Serverless) -> bool:
    """It has nothing in hand any more, or can no longer be asked; what it held comes back."""
    if worker.phase is not WorkerPhase.DRAINING:
        return False
    if worker.has_drained:
        return True
    silence = worker.is_silent and worker.since_seconds >= SILENT_SECONDS
    return silence or worker.since_seconds >= limits.timeoutSeconds + DRAIN_SLACK_SECONDS


def _dispensability(worker: Worker) -> tuple[bool, bool, int, int, str]:
    """First those that serve nobody, then outdated ones, then idle ones, the youngest names."""
    number = int(worker.name.rpartition("-")[2])
    return (
        worker.phase is WorkerPhase.READY,
        worker.is_current,
        worker.busy,
        -number,
        worker.name,
    )


def _trouble(staying: list[Worker]) -> Shortage | None:
    phases = {worker.phase for worker in staying}
    if WorkerPhase.FAILED in phases:
        return Shortage.WORKER_FAILED
    return Shortage.WORKER_LOST if WorkerPhase.ADRIFT in phases else None


def _look_again_seconds(seen: Observed, plan: Plan) -> float | None:
    """When the plan may be another one although nothing was heard."""
    phases = {worker.phase for worker in seen.workers}
    if plan.drain or plan.delete or WorkerPhase.DRAINING in phases:
        return DRAINING_SECONDS
    if plan.shortage is Shortage.CAPACITY or phases & {WorkerPhase.STARTING, WorkerPhase.ADRIFT}:
        return UNSETTLED_SECONDS
    return None
