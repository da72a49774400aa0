"""The table of all invariants: each rule's name, its subjects, and the function that judges."""

from collections.abc import Iterable
from itertools import chain
from typing import Any, Final

from gpuruntime.audit import (
    children,
    claims,
    drift,
    functions,
    labels,
    mounts,
    pools,
    sidecars,
    states,
    storages,
)
from gpuruntime.audit.index import SnapshotIndex
from gpuruntime.audit.rule import Rule
from gpuruntime.models.kinds.pools import StockPool
from gpuruntime.models.kinds.storages import GPUStorage
from gpuruntime.models.kinds.units import GPUUnit
from gpuruntime.models.kubernetes.network import NetworkPolicy
from gpuruntime.models.kubernetes.pods import Pod
from gpuruntime.models.kubernetes.workloads import Deployment


def _reporting(index: SnapshotIndex) -> Iterable[states.Reporting]:
    return chain(_all_units(index), index.snapshot.pools, _storages(index))


def _all_units(index: SnapshotIndex) -> Iterable[GPUUnit]:
    return chain(index.snapshot.stock, index.snapshot.units)


def _stock(index: SnapshotIndex) -> Iterable[GPUUnit]:
    return index.snapshot.stock


def _units(index: SnapshotIndex) -> Iterable[GPUUnit]:
    return index.snapshot.units


def _pools(index: SnapshotIndex) -> Iterable[StockPool]:
    return index.snapshot.pools


def _started_by_source(index: SnapshotIndex) -> Iterable[list[GPUUnit]]:
    return index.started_by_source.values()


def _started_by_operation(index: SnapshotIndex) -> Iterable[list[GPUUnit]]:
    return index.started_by_operation.values()


def _children(index: SnapshotIndex) -> Iterable[children.Child]:
    snapshot = index.snapshot
    return chain(
        snapshot.deployments or (),
        snapshot.services or (),
        snapshot.policies or (),
        snapshot.claims or (),
        snapshot.jobs or (),
    )


def _policies(index: SnapshotIndex) -> Iterable[NetworkPolicy]:
    return index.snapshot.policies or ()


def _selecting(index: SnapshotIndex) -> Iterable[drift.Selecting]:
    return chain(index.snapshot.services or (), _policies(index))


def _storages(index: SnapshotIndex) -> Iterable[GPUStorage]:
    return index.snapshot.storages or ()


def _deletable(index: SnapshotIndex) -> Iterable[GPUUnit | GPUStorage]:
    return chain(index.snapshot.units, _storages(index))


def _running(index: SnapshotIndex) -> Iterable[Deployment | Pod]:
    return chain(index.snapshot.deployments or (), index.snapshot.pods or ())


def _pods(index: SnapshotIndex) -> Iterable[Pod]:
    return index.snapshot.pods or ()


def _held(index: SnapshotIndex) -> Iterable[functions.Held]:
    snapshot = index.snapshot
    return chain(
        snapshot.deployments or (),
        snapshot.services or (),
        snapshot.policies or (),
        snapshot.pods or (),
        snapshot.stock,
    )


def _templates(index: SnapshotIndex) -> Iterable[GPUUnit]:
    return chain.from_iterable(index.templates_of.values())


def _rival_templates(index: SnapshotIndex) -> Iterable[list[GPUUnit]]:
    return index.templates_of.values()


def _workers(index: SnapshotIndex) -> Iterable[GPUUnit]:
    return index.worker_by_secret.values()


def _deployments(index: SnapshotIndex) -> Iterable[Deployment]:
    return index.snapshot.deployments or ()


RULES: Final[tuple[Rule[Any], ...]] = (
    Rule(
        name="one-state",
        description="a unit, pool or storage is in one state: its phase follows its conditions",
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
        description="a status reports no generation later than the object's",
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
        name="stock-follows-pool",
        description="unclaimed stock takes over the image and the template of its pool",
        subjects=_pools,
        judge=pools.stock_follows,
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
        description="a stock unit has all marks of a claim or none",
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
        description="the stock that a started unit uses is claimed by it",
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
        description="a unit or storage is deleted after its tombstone was written",
        subjects=_deletable,
        judge=children.deletion_ends,
        needs=("tombstones",),
    ),
    Rule(
        name="unit-labels",
        description="a unit's labels agree with its name and its specName",
        subjects=_all_units,
        judge=labels.unit_labels,
    ),
    Rule(
        name="source-marks",
        description="an active unit names its whole source or none, and has no claim",
        subjects=_units,
        judge=labels.source_marks,
    ),
    Rule(
        name="pool-labels",
        description="a pool's labels agree with its name and its specName",
        subjects=_pools,
        judge=labels.pool_labels,
    ),
    Rule(
        name="stock-of-pool",
        description="stock has the name, an ordinal and the envelope of its pool",
        subjects=_stock,
        judge=labels.stock_of_its_pool,
    ),
    Rule(
        name="unit-isolated",
        description="an active unit has its NetworkPolicy before it has a Pod",
        subjects=_running,
        judge=children.isolated,
        needs=("deployments", "pods", "policies"),
    ),
    Rule(
        name="child-selects",
        description="the Service and the NetworkPolicy of a unit select its Pods and no others",
        subjects=_selecting,
        judge=drift.selects_own_pods,
        needs=("deployments", "services", "policies"),
    ),
    Rule(
        name="policy-applied",
        description="a NetworkPolicy has the rules that were last applied",
        subjects=_policies,
        judge=drift.as_applied,
        needs=("policies",),
    ),
    Rule(
        name="template-closed",
        description="no Deployment shares its host with its Pods, or gives them an account",
        subjects=_deployments,
        judge=drift.closed,
        needs=("deployments",),
    ),
    Rule(
        name="storage-child-owner",
        description="a child of a storage has that storage as its one controller, and its name; "
        "its claim names it in an annotation alone",
        subjects=_children,
        judge=children.one_storage,
        needs=("storages", "deployments", "services", "policies", "claims", "jobs"),
    ),
    Rule(
        name="storage-once",
        description="a storage is mounted by at most one unit",
        subjects=mounts.mounts,
        judge=mounts.mounted_once,
        needs=("pods",),
    ),
    Rule(
        name="storage-held",
        description="a unit that mounts a storage holds it",
        subjects=mounts.may_mount,
        judge=mounts.held_by_its_unit,
        needs=("storages", "deployments", "pods"),
    ),
    Rule(
        name="storage-kept",
        description="a storage and its claim stay while a unit or a copy mounts them",
        subjects=mounts.uses,
        judge=mounts.kept_below,
        needs=("storages", "claims", "pods"),
    ),
    Rule(
        name="storage-filled",
        description="a storage that is not prepared, or has no volume yet, is not mounted",
        subjects=mounts.uses,
        judge=mounts.filled_before,
        needs=("storages", "pods"),
    ),
    Rule(
        name="storage-node",
        description="a storage's file server runs where the unit that mounts it runs",
        subjects=mounts.mounts,
        judge=mounts.on_one_node,
        needs=("pods",),
    ),
    Rule(
        name="storage-given-back",
        description="a storage is held only for a unit that mounts it",
        subjects=_storages,
        judge=storages.hold_ends,
        needs=("storages", "pods"),
    ),
    Rule(
        name="prepare-once",
        description="a storage is filled by one recorded Job, and never again after it ended",
        subjects=_storages,
        judge=storages.prepared_once,
        needs=("storages", "jobs", "pods"),
    ),
    Rule(
        name="stock-empty",
        description="stock mounts no storage and holds none",
        subjects=_stock,
        judge=storages.stock_is_empty,
    ),
    Rule(
        name="template-runs-nothing",
        description="the template of a function has no children, no Pod and no stock",
        subjects=_held,
        judge=functions.runs_nothing,
        needs=("deployments", "services", "policies", "pods"),
    ),
    Rule(
        name="function-owner",
        description="of several units that declare a function only the oldest has workers",
        subjects=_rival_templates,
        judge=functions.one_owner_serves,
    ),
    Rule(
        name="worker-limit",
        description="a function has no more workers than maxWorkers, and a successor in an update",
        subjects=_templates,
        judge=functions.within_limit,
    ),
    Rule(
        name="worker-minimum",
        description="a function has minAvailableCount workers as long as there is stock for them",
        subjects=_templates,
        judge=functions.enough_workers,
    ),
    Rule(
        name="worker-template",
        description="a worker has the template that it names, and the envelope of that",
        subjects=_workers,
        judge=functions.works_for_its_template,
    ),
    Rule(
        name="worker-sidecar",
        description="a worker's Pod has the sidecar, which alone reads the worker's Secret",
        subjects=_deployments,
        judge=sidecars.worker_beside,
        needs=("deployments",),
    ),
    Rule(
        name="worker-drains",
        description="a draining worker is deleted",
        subjects=_workers,
        judge=functions.drain_ends,
    ),
)
