"""The invariants, and the one pure function that holds a snapshot to them.

No rule finds anything in a consistent snapshot of correct operation, between any two writes of
a protocol, that lasts longer than the finding itself allows; how long it has lasted is the
observer's to say. So `breaches` is empty unless something is wrong.
"""

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any, Final

from gpuruntime.audit import children, claims, labelling, pools, states
from gpuruntime.audit.breach import Breach, Suspicion
from gpuruntime.audit.facts import Facts
from gpuruntime.audit.rule import Rule
from gpuruntime.audit.snapshot import Snapshot
from gpuruntime.models.network import Service
from gpuruntime.models.pods import Pod
from gpuruntime.models.pools import StockPool
from gpuruntime.models.units import GPUUnit
from gpuruntime.models.workloads import Deployment


def _reporting(facts: Facts) -> Iterable[GPUUnit | StockPool]:
    return chain(facts.snapshot.stock, facts.snapshot.units, facts.snapshot.pools)


def _all_units(facts: Facts) -> Iterable[GPUUnit]:
    return chain(facts.snapshot.stock, facts.snapshot.units)


def _stock(facts: Facts) -> Iterable[GPUUnit]:
    return facts.snapshot.stock


def _units(facts: Facts) -> Iterable[GPUUnit]:
    return facts.snapshot.units


def _pools(facts: Facts) -> Iterable[StockPool]:
    return facts.snapshot.pools


def _started_by_source(facts: Facts) -> Iterable[list[GPUUnit]]:
    return facts.started_by_source.values()


def _started_by_operation(facts: Facts) -> Iterable[list[GPUUnit]]:
    return facts.started_by_operation.values()


def _children(facts: Facts) -> Iterable[Deployment | Service]:
    return chain(facts.snapshot.deployments or (), facts.snapshot.services or ())


def _pods(facts: Facts) -> Iterable[Pod]:
    return facts.snapshot.pods or ()


RULES: Final[tuple[Rule[Any], ...]] = (
    Rule(
        name="one-state",
        description="a unit or pool is in exactly one state: its phase is what its conditions say",
        subjects=_reporting,
        judge=states.one_state,
    ),
    Rule(
        name="known-reasons",
        description="conditions carry known types, statuses and reasons",
        subjects=_reporting,
        judge=states.known_reasons,
    ),
    Rule(
        name="observed-generation",
        description="a status tells of no generation that is yet to come",
        subjects=_reporting,
        judge=states.observed_generation,
    ),
    Rule(
        name="pool-sum",
        description="what a pool created is free, claimed or consumed",
        subjects=_pools,
        judge=pools.sums_up,
    ),
    Rule(
        name="ordinal-recorded",
        description="consumed stock is recorded by its pool, and its ordinal is used once",
        subjects=_units,
        judge=pools.ordinal_recorded,
    ),
    Rule(
        name="stock-pool",
        description="unclaimed stock has the pool that made it",
        subjects=_stock,
        judge=pools.has_pool,
    ),
    Rule(
        name="claim-whole",
        description="a stock unit bears all marks of a claim or none",
        subjects=_stock,
        judge=claims.whole_marks,
    ),
    Rule(
        name="claim-settled",
        description="no claim stays past its grace without a unit that will start from it",
        subjects=_stock,
        judge=claims.settled,
    ),
    Rule(
        name="claim-held",
        description="the stock that a started unit lives from is claimed by it",
        subjects=_units,
        judge=claims.held_by_its_unit,
    ),
    Rule(
        name="stock-once",
        description="a stock uid is named by at most one started unit",
        subjects=_started_by_source,
        judge=claims.one_start_for_stock,
    ),
    Rule(
        name="operation-once",
        description="an operation has at most one started unit",
        subjects=_started_by_operation,
        judge=claims.one_start_for_operation,
    ),
    Rule(
        name="same-envelope",
        description="an active unit has the envelope of the stock that it names",
        subjects=_units,
        judge=claims.same_envelope,
    ),
    Rule(
        name="child-owner",
        description="a child has its unit as its one controller, and that unit's name",
        subjects=_children,
        judge=children.one_owner,
        needs=("deployments", "services"),
    ),
    Rule(
        name="pod-owner",
        description="a Pod has the unit for which it runs",
        subjects=_pods,
        judge=children.pod_of_a_unit,
        needs=("pods",),
    ),
    Rule(
        name="deletion-ends",
        description="a unit whose tombstone is written goes",
        subjects=_units,
        judge=children.deletion_ends,
        needs=("tombstones",),
    ),
    Rule(
        name="unit-labels",
        description="a unit's labels say its name and its specName",
        subjects=_all_units,
        judge=labelling.unit_labels,
    ),
    Rule(
        name="source-marks",
        description="an active unit names its whole source or none, and bears no claim",
        subjects=_units,
        judge=labelling.source_marks,
    ),
    Rule(
        name="pool-labels",
        description="a pool's labels say its name and its specName",
        subjects=_pools,
        judge=labelling.pool_labels,
    ),
    Rule(
        name="stock-of-pool",
        description="stock bears the name, an ordinal and the envelope of its pool",
        subjects=_stock,
        judge=labelling.stock_of_its_pool,
    ),
)


def breaches(snapshot: Snapshot) -> list[Breach]:
    """What is wrong, given how long the snapshot's observer has seen it."""
    return [
        each.breach
        for each in suspicions(snapshot)
        if each.is_breach_at(snapshot.ages.get(each.identity, 0.0))
    ]


def suspicions(snapshot: Snapshot) -> list[Suspicion]:
    return [each for each in steps(snapshot) if each is not None]


def steps(snapshot: Snapshot) -> Iterator[Suspicion | None]:
    """The same in small pieces: None stands for one that found nothing."""
    facts = Facts(snapshot=snapshot)
    for _ in facts.gather():
        yield None
    for rule in RULES:
        if not rule.is_judged(snapshot):
            continue
        for subject in rule.subjects(facts):
            yield None
            for finding in rule.judge(subject, facts):
                yield Suspicion(rule=rule.name, finding=finding)
