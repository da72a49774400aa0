"""The results of the run, row by row, against the budgets.

Numbers of writes, Events and reconciles have to stay within their budget exactly. The other
budgets tolerate a quarter more, as in the benches.
"""

from collections import Counter
from collections.abc import Iterable, Iterator

import attrs

from tests.proofs.bench.rows import Row
from tests.proofs.load.callers import BurstResult
from tests.proofs.load.sampling import ProcessSamples, StageSamples
from tests.proofs.load.stages import LEASES, REQUESTS, WRITES, CompletedBurst, Seeded, Size

MANAGER = "manager"
RECONCILES = "gpuruntime_reconciles_total"
# The unit, its Deployment, and two patches of the status.
WRITES_PER_STOCK = 4
WRITES_PER_CLAIM = 8
EVENTS_PER_CLAIM = 1
RECONCILES_PER_CLAIM = 6
REFUSALS_EACH = 0.05
# The tombstone, and the deletion of the unit.
WRITES_PER_DELETION = 2
# The budget is for p99.9. On a busy machine the longest stall only measures its scheduler.
STALL_MS = 50
REST_SHARE = 0.02
KEPT_PER_WIRE = 0.9
# Memory of connections, their buffers and code that has run, independent of the mirrored objects.
WORKING_MB = 64
# The number of these writes depends on time, or is reported in its own row, not per unit.
NOT_PER_UNIT = frozenset({"stockpools.runtime.lokiwager.io", "events", LEASES})
ENDED = "ended"


@attrs.frozen(kw_only=True)
class Memory:
    """The growth of one process since its start, and the size of what it mirrors."""

    name: str
    grown_bytes: int
    wire_bytes: int


def seeding(stage: StageSamples, seeded: Seeded, size: Size) -> Iterator[Row]:
    yield _number("stock made", size.stock / seeded.created_seconds, "1/s")
    yield _number("stock ready", size.stock / seeded.ready_seconds, "1/s")
    yield from _writes(stage, size.stock, WRITES_PER_STOCK)
    yield from _reconciles(stage, size.stock)
    yield from _pools(stage, size)
    yield from _health(stage)


def claiming(stage: StageSamples, claimed: CompletedBurst, size: Size) -> Iterator[Row]:
    yield from _burst("claims", claimed.burst, 201)
    yield _number("units ready", size.active / claimed.seconds, "1/s")
    yield from _writes(stage, size.active, WRITES_PER_CLAIM)
    events = sum(_written(stage, "events").values()) / size.active
    yield Row(
        name="  Events per unit", value=events, unit="", at_most=EVENTS_PER_CLAIM, tolerance=1
    )
    per_claim = sum(
        stage.total(RECONCILES, controller=each) for each in ("unit", "stock", "deletion")
    )
    yield Row(
        name="  reconciles per unit",
        value=per_claim / size.active,
        unit="",
        at_most=RECONCILES_PER_CLAIM,
        tolerance=1,
    )
    yield from _reconciles(stage, size.active)
    yield from _pools(stage, size)
    yield from _health(stage)


def resting(stage: StageSamples, memory: Iterable[Memory]) -> Iterator[Row]:
    writes = sum(_written(stage).values())
    yield Row(name="writes without Leases", value=writes, unit="", at_most=0)
    lists = stage.total(REQUESTS, verb="list")
    yield Row(name="lists", value=lists, unit="", at_most=0)
    for name, process in stage.processes.items():
        share = process.processor_seconds / stage.seconds
        yield Row(name=f"{name}: share of a core", value=share, unit="", at_most=REST_SHARE)
    for each in memory:
        wire = each.wire_bytes / 1e6
        yield _number(f"{each.name}: mirrored, on the wire", wire, "MB")
        yield Row(
            name=f"{each.name}: memory growth",
            value=each.grown_bytes / 1e6,
            unit="MB",
            at_most=KEPT_PER_WIRE * wire + WORKING_MB,
        )
    yield from _health(stage)


def deleting(stage: StageSamples, deleted: CompletedBurst) -> Iterator[Row]:
    count = len(deleted.burst.served)
    yield from _burst("deletions", deleted.burst, 204)
    yield _number("units deleted, with their Pods", count / deleted.seconds, "1/s")
    yield from _writes(stage, count, WRITES_PER_DELETION)
    yield from _reconciles(stage, count)
    yield from _health(stage)


def overall(stages: Iterable[StageSamples], breaches: int, errors: int) -> Iterator[Row]:
    yield Row(name="breaches of the audit", value=breaches, unit="", at_most=0)
    yield Row(name="errors in the logs", value=errors, unit="", at_most=0)
    yield from _restarts(stages)


def _restarts(stages: Iterable[StageSamples]) -> Iterator[Row]:
    """Count ended watches. The server ends each after some minutes; other causes are faults."""
    counted: Counter[str] = Counter()
    for stage in stages:
        for process in stage.processes.values():
            found = process.added.by("gpuruntime_informer_watch_restarts_total", "cause")
            counted.update({cause: int(count) for (cause,), count in found.items()})
    yield _number("watches that ended normally", counted.pop(ENDED, 0), "")
    for cause, count in counted.items():
        yield _number(f"  watches that ended otherwise: {cause}", count, "")
    yield Row(name="watches that ended otherwise", value=counted.total(), unit="", at_most=0)


def _burst(what: str, burst: BurstResult, expected: int) -> Iterator[Row]:
    yield _number(what, burst.rate, "1/s")
    yield _number(f"  latency p50 of {what}", 1000 * burst.slowest(0.5), "ms")
    yield _number(f"  latency p99 of {what}", 1000 * burst.slowest(0.99), "ms")
    refused = burst.refused(expected)
    yield Row(
        name=f"  answered with another status than {expected}", value=refused, unit="", at_most=0
    )


def _writes(stage: StageSamples, count: int, budget: int) -> Iterator[Row]:
    """Yield rows for successful and for refused writes. A refused write shows a stale view."""
    written = _written(stage)
    done = {key: value for key, value in written.items() if key[2].startswith("2")}
    refused = {key: value for key, value in written.items() if key not in done}
    each = sum(done.values()) / count
    yield Row(name="writes per unit", value=each, unit="", at_most=budget, tolerance=1)
    for (verb, resource, _), value in sorted(done.items()):
        yield _number(f"  {verb} {resource.partition('.')[0]}", value / count, "")
    each = sum(refused.values()) / count
    yield Row(name="refused writes per unit", value=each, unit="", at_most=REFUSALS_EACH)
    for (verb, resource, code), value in sorted(refused.items()):
        yield _number(f"  {verb} {resource.partition('.')[0]}: {code}", value / count, "")


def _written(stage: StageSamples, resource: str = "") -> dict[tuple[str, str, str], float]:
    """Return the writes by verb, resource and code.

    Without `resource` the resources in NOT_PER_UNIT are left out.
    """
    found: dict[tuple[str, str, str], float] = {}
    for process in stage.processes.values():
        counted = process.added.by(REQUESTS, "verb", "resource", "code")
        for (verb, about, code), value in counted.items():
            is_wanted = about == resource if resource else about not in NOT_PER_UNIT
            if verb in WRITES and is_wanted:
                key = (verb, about, code)
                found[key] = found.get(key, 0.0) + value
    return found


def _reconciles(stage: StageSamples, count: int) -> Iterator[Row]:
    found = stage.processes[MANAGER].added.by(RECONCILES, "controller", "outcome")
    for (controller, outcome), value in sorted(found.items()):
        if controller != "pool":
            yield _number(f"  reconciles per unit, {controller}: {outcome}", value / count, "")


def _pools(stage: StageSamples, size: Size) -> Iterator[Row]:
    """Yield the rates of pools: their status is written at most once a second for each pool."""
    pools = len(size.pools)
    written = sum(_written(stage, "stockpools.runtime.lokiwager.io").values())
    per_second = written / stage.seconds / pools
    yield Row(name="writes per second and pool", value=per_second, unit="1/s", at_most=1)
    reconciles = stage.total(RECONCILES, controller="pool") / stage.seconds / pools
    yield _number("reconciles per second and pool", reconciles, "1/s")


def _health(stage: StageSamples) -> Iterator[Row]:
    for name, process in stage.processes.items():
        yield _number(f"{name}: processor time", process.processor_seconds, "s")
        yield _number(f"{name}: peak memory", process.peak_bytes / 1e6, "MB")
        yield _number(f"{name}: memory at the end", process.samples[-1].resident_bytes / 1e6, "MB")
        yield from _loop(name, process)
    yield from _queues(stage.processes[MANAGER])


def _loop(name: str, process: ProcessSamples) -> Iterator[Row]:
    """Yield the delays of the event loop, each as the upper bound of its histogram bucket."""
    added = process.added
    lag, held = "gpuruntime_loop_lag_seconds", "gpuruntime_loop_held_seconds"
    yield _number(f"{name}: event loop lag, p99 ≤", 1000 * added.at_most(lag, 0.99), "ms")
    yield _number(f"{name}: event loop lag, longest ≤", 1000 * added.at_most(lag, 1), "ms")
    yield Row(
        name=f"{name}: event loop held, p99.9 ≤",
        value=1000 * added.at_most(held, 0.999),
        unit="ms",
        at_most=STALL_MS,
    )
    yield _number(f"{name}: event loop held, longest ≤", 1000 * added.at_most(held, 1), "ms")
    pause = 1000 * added.at_most("gpuruntime_gc_pause_seconds", 1)
    yield _number(f"{name}: garbage collection pause, longest ≤", pause, "ms")


def _queues(manager: ProcessSamples) -> Iterator[Row]:
    depth, wait = "gpuruntime_workqueue_depth", "gpuruntime_workqueue_wait_seconds"
    for (queue,) in sorted(manager.added.by("gpuruntime_workqueue_adds_total", "queue")):
        yield _number(f"queue {queue}: peak depth", manager.peak(depth, queue=queue), "")
        waited = manager.added.at_most(wait, 0.99, queue=queue)
        yield _number(f"queue {queue}: wait, p99 ≤", 1000 * waited, "ms")
        waited = manager.added.at_most(wait, 1, queue=queue)
        yield _number(f"queue {queue}: wait, longest ≤", 1000 * waited, "ms")


def _number(name: str, value: float, unit: str) -> Row:
    return Row(name=name, value=value, unit=unit)
