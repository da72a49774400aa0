"""Every rule, checked against every way to break it and against correct operation."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import attrs
import pytest

from gpuruntime.audit.audit import breaches, suspicions
from gpuruntime.audit.rules import RULES
from gpuruntime.audit.snapshot import KINDS, Snapshot
from gpuruntime.models.kinds import labels
from gpuruntime.models.kinds.functions import Serverless
from gpuruntime.models.kinds.storages import Holder, PrepareStatus
from gpuruntime.models.kinds.templates import Template
from gpuruntime.models.kinds.units import StorageMount, Timeline
from gpuruntime.models.kubernetes.conditions import Condition
from gpuruntime.models.kubernetes.network import Service
from gpuruntime.models.kubernetes.pods import Pod, PodStatus
from gpuruntime.models.kubernetes.volumes import VolumeClaim
from gpuruntime.models.kubernetes.workloads import Deployment
from tests.rooms.audit import test_functions
from tests.rooms.audit.corruptions import Corruption, both, cases, demand_breach, rules_broken
from tests.rooms.audit.values import (
    INSTANCE,
    JOB,
    LATER,
    MADE,
    STORAGE,
    active_unit,
    added,
    aged,
    change,
    child_metadata,
    claim_marks,
    claim_metadata,
    copying_pod,
    deployment,
    filling_pod,
    job,
    mounting,
    owner,
    policy,
    raw,
    ready,
    selector,
    server_pod,
    sound,
    stock_unit,
    storage_metadata,
    tombstone,
    unit_pod,
    with_metadata,
    with_notes,
    with_spec,
    with_status,
    without,
)


def edit(kind: str, name: str, how: Callable[[Any], Any]) -> Corruption:
    return lambda snapshot: change(snapshot, kind, name, how)


def told(kind: str, name: str, **members: Any) -> Corruption:
    return edit(kind, name, lambda held: with_status(held, **members))


def noted(kind: str, name: str, **changes: str | None) -> Corruption:
    """Set annotations; the keys are names of the labels module."""
    notes = {getattr(labels, key): value for key, value in changes.items()}
    return edit(kind, name, lambda held: with_notes(held, notes))


def labelled(kind: str, name: str, key: str, value: str) -> Corruption:
    def how(held: Any) -> Any:
        return with_metadata(held, labels={**held.metadata.labels, key: value})

    return edit(kind, name, how)


def unlabelled(kind: str, name: str, key: str) -> Corruption:
    def how(held: Any) -> Any:
        left = {each: text for each, text in held.metadata.labels.items() if each != key}
        return with_metadata(held, labels=left)

    return edit(kind, name, how)


def owned(kind: str, *owners: Any) -> Corruption:
    return edit(kind, "unit-demo", lambda held: with_metadata(held, ownerReferences=owners))


def disowned(kind: str, name: str, **members: Any) -> Corruption:
    """Return a child of the storage with other metadata."""
    return edit(kind, name, lambda held: with_metadata(held, **members))


def mounted(pod: str, claim: str, *, node: str = "node-1") -> Corruption:
    spec = mounting(claim, node=node)
    return edit("pods", pod, lambda held: attrs.evolve(held, spec=spec))


def specced(kind: str, **spec: Any) -> Corruption:
    return edit(kind, "unit-demo", lambda held: attrs.evolve(held, spec=raw(spec)))


def opened(**members: Any) -> Corruption:
    spec = {"selector": {"matchLabels": selector("demo")}, "template": {"spec": members}}
    return specced("deployments", **spec)


def ending(kind: str, name: str) -> Corruption:
    return disowned(kind, name, deletionTimestamp=LATER)


def plus(kind: str, value: object) -> Corruption:
    return lambda snapshot: added(snapshot, kind, value)


def minus(kind: str, name: str) -> Corruption:
    return lambda snapshot: without(snapshot, kind, name)


def doubled(held: Any) -> Any:
    return with_status(held, conditions=(*held.status.conditions, *held.status.conditions))


STALE_AND_FAILED = both(
    edit("stock", "p-2", lambda held: with_spec(held, image="old")),
    told("stock", "p-2", phase="Failed", readyReplicas=0, conditions=ready("PodStartupFailed")),
)
STARTING = told(
    "stock",
    "p-3",
    phase="Progressing",
    readyReplicas=0,
    conditions=ready("DeploymentProgressing"),
)
NEXT_STARTED = told("units", "next", timeline=Timeline(createdAt=LATER))
GONE_STORAGE = storage_metadata("other", uid="uid-gone").ownerReferences
LET_GO = told("storages", STORAGE, holder=None, mountedBy=())
GIVEN_ON = told(
    "storages", STORAGE, holder=Holder(name="next", uid="uid-next"), mountedBy=("next",)
)


def prepare(phase: str, name: str = JOB) -> Corruption:
    return told("storages", STORAGE, prepare=PrepareStatus(phase=phase, jobName=name))


# Filled by the recorded Job, while no Pod uses the volume.
FILLS = both(
    prepare("Running"),
    edit("jobs", JOB, lambda held: with_status(held, conditions=())),
    LET_GO,
    minus("deployments", "unit-demo"),
    *(minus("pods", name) for name in ("unit-demo-1", f"storage-accessor-{STORAGE}-1")),
)

CORRUPTIONS: dict[str, list[Corruption]] = {
    "one-state": [
        told("units", "demo", phase="Failed"),
        told("units", "demo", phase=""),
        told("units", "demo", conditions=()),
        told("units", "demo", readyReplicas=0),
        told("units", "next", readyReplicas=1),
        told("stock", "p-2", phase="Progressing"),
        told("pools", "p", phase="Empty"),
        told("storages", STORAGE, phase="Pending"),
        told("storages", STORAGE, mountedBy=()),
        edit("units", "demo", doubled),
        edit("units", "demo", lambda unit: with_spec(unit, suspended=True)),
        told(
            "units",
            "demo",
            phase="Suspended",
            readyReplicas=0,
            conditions=ready("ScaledToZero"),
        ),
        told("units", "demo", readyReplicas=0, conditions=ready("FunctionDeclared")),
    ],
    "known-reasons": [
        told("units", "demo", conditions=(Condition(type="Ready", status="True", reason="Fine"),)),
        told(
            "units",
            "next",
            conditions=(Condition(type="Ready", status="Perhaps", reason="ClaimLost"),),
        ),
        told("units", "demo", conditions=(*ready(), Condition(type="Happy", status="True"))),
        told(
            "units",
            "demo",
            phase="Progressing",
            readyReplicas=0,
            conditions=(Condition(type="Ready", status="False", reason="DeploymentReady"),),
        ),
        told("pools", "p", conditions=ready("DeploymentReady")),
        told("pools", "p", conditions=(Condition(type="Ready", status="True", reason="Stock"),)),
        told(
            "units",
            "demo",
            conditions=(*ready(), Condition(type="StorageReady", status="True", reason="Fine")),
        ),
        told("storages", STORAGE, conditions=ready("StockReady")),
        told(
            "storages",
            STORAGE,
            conditions=(
                *ready("VolumeReady"),
                Condition(type="Prepared", status="False", reason="PrepareSucceeded"),
            ),
        ),
    ],
    "observed-generation": [
        told("units", "demo", observedGeneration=2),
        told("stock", "p-2", conditions=ready(generation=2)),
        told("pools", "p", observedGeneration=2),
        told("storages", STORAGE, observedGeneration=2),
    ],
    "pool-sum": [
        told("pools", "p", consumed=2, available=1),
        told("pools", "p", consumed=5),
        told("pools", "p", consumed=-1, available=4),
        told("pools", "p", available=1),
        told("pools", "p", skipped=1),
        told("pools", "p", skipped=-1),
        both(
            *(plus("stock", stock_unit(ordinal)) for ordinal in (5, 6)),
            told("pools", "p", seeded=6, available=4),
        ),
        plus("stock", stock_unit(1)),
        edit("pools", "p", lambda held: with_spec(held, replicas=5)),
    ],
    "ordinal-recorded": [
        both(told("pools", "p", seeded=0, consumed=0), minus("stock", "p-4"), NEXT_STARTED),
        both(
            plus("stock", with_metadata(stock_unit(1), uid="uid-again")),
            told("pools", "p", consumed=0, available=3),
        ),
    ],
    "stock-pool": [minus("pools", "p")],
    "stock-follows-pool": [
        both(
            edit("pools", "p", lambda held: with_spec(held, image="new")),
            told("pools", "p", stale=2),
        ),
        both(
            edit("stock", "p-2", lambda held: with_spec(held, template=Template(args=("a",)))),
            told("pools", "p", stale=1),
        ),
        both(STALE_AND_FAILED, STARTING, told("pools", "p", stale=1)),
    ],
    "claim-whole": [
        *(noted("stock", "p-4", **{mark: None}) for mark in ("CLAIM_ATTEMPT", "REQUEST_HASH")),
        noted("stock", "p-4", CLAIMED_AT=""),
        noted("stock", "p-2", OPERATION_ID="two"),
        noted("stock", "p-4", CLAIMED_BY="next"),
    ],
    "claim-settled": [
        minus("units", "next"),
        noted("units", "next", OPERATION_ID="other"),
        noted("units", "next", SOURCE_STOCK_UID="uid-p-9"),
        NEXT_STARTED,
    ],
    "claim-held": [
        both(NEXT_STARTED, noted("stock", "p-4", CLAIMED_BY=f"{INSTANCE}/demo")),
        both(NEXT_STARTED, noted("stock", "p-4", OPERATION_ID="other")),
        both(
            NEXT_STARTED,
            noted("stock", "p-4", **dict.fromkeys(("CLAIMED_BY", "CLAIM_ATTEMPT"), None)),
            noted("stock", "p-4", OPERATION_ID=None, REQUEST_HASH=None, CLAIMED_AT=None),
        ),
        both(
            plus("deployments", Deployment(metadata=child_metadata("next"))),
            noted("stock", "p-4", OPERATION_ID="other"),
        ),
    ],
    "stock-once": [
        plus("units", active_unit("rival", 1, operation="three", started=True)),
        both(
            plus("units", active_unit("rival", 1, operation="three", started=False)),
            plus("deployments", Deployment(metadata=child_metadata("rival"))),
        ),
    ],
    "operation-once": [
        both(
            plus("units", active_unit("rival", 9, operation="one", started=True)),
            noted("units", "rival", SOURCE_STOCK=None, SOURCE_STOCK_UID=None),
        ),
    ],
    "same-envelope": [
        edit("units", "next", lambda unit: with_spec(unit, gpu=2)),
        edit("units", "next", lambda unit: with_spec(unit, memory="16G")),
        edit("units", "next", lambda unit: with_spec(unit, gpuProduct="H100")),
        both(
            edit("units", "next", lambda unit: with_spec(unit, specName="g2")),
            labelled("units", "next", labels.SPEC, "g2"),
        ),
    ],
    "child-owner": [
        owned("deployments"),
        owned("services"),
        owned("deployments", owner("demo"), owner("next")),
        owned("deployments", owner("gone")),
        owned("services", owner("gone")),
        owned("deployments", owner("demo", kind="StatefulSet")),
        owned("services", owner("next")),
        owned("policies"),
        labelled("deployments", "unit-demo", labels.UNIT, "next"),
        plus("services", Service(metadata=child_metadata("gone"))),
    ],
    "pod-owner": [plus("pods", Pod(metadata=child_metadata("gone")))],
    "deletion-ends": [
        plus("tombstones", tombstone("one", name="demo", uid="uid-demo")),
        plus(
            "tombstones",
            tombstone("s", kind="GPUStorage", name=STORAGE, uid=f"uid-{STORAGE}"),
        ),
    ],
    "unit-labels": [
        labelled("units", "demo", labels.SPEC, "g2"),
        labelled("stock", "p-2", labels.UNIT, "p-3"),
        unlabelled("units", "demo", labels.UNIT),
        unlabelled("stock", "p-2", labels.SPEC),
    ],
    "source-marks": [
        noted("units", "demo", SOURCE_STOCK=None),
        noted("units", "demo", SOURCE_STOCK_UID=None),
        noted("units", "demo", SOURCE_STOCK="p-1"),
        noted("units", "demo", CLAIMED_BY=f"{INSTANCE}/next"),
        noted("units", "demo", CLAIM_ATTEMPT="a.1"),
    ],
    "pool-labels": [
        labelled("pools", "p", labels.POOL, "q"),
        labelled("pools", "p", labels.SPEC, "g2"),
    ],
    "stock-of-pool": [
        unlabelled("stock", "p-2", labels.POOL),
        both(
            plus("stock", with_metadata(stock_unit(9), name="odd")),
            minus("stock", "p-3"),
            labelled("stock", "odd", labels.UNIT, "odd"),
        ),
        both(
            plus("stock", with_metadata(stock_unit(9), name="q-9")),
            minus("stock", "p-3"),
            labelled("stock", "q-9", labels.UNIT, "q-9"),
            labelled("stock", "q-9", labels.POOL, "q"),
        ),
        edit("stock", "p-2", lambda unit: with_spec(unit, gpu=8)),
        edit("stock", "p-2", lambda unit: with_spec(unit, memory="8Gi")),
    ],
    "unit-isolated": [
        minus("policies", "unit-demo"),
        owned("policies", owner("next")),
        both(minus("policies", "unit-demo"), minus("pods", "unit-demo-1")),
        both(minus("policies", "unit-demo"), minus("deployments", "unit-demo")),
    ],
    "child-selects": [
        specced("services", selector={**selector("demo"), "added": "x"}),
        specced("services", selector={labels.UNIT: "demo"}),
        specced("services", selector=selector("next")),
        specced("services"),
        specced("policies", podSelector={"matchLabels": selector("next")}),
        specced("policies", podSelector={"matchLabels": {labels.UNIT: "demo"}}),
    ],
    "policy-applied": [
        specced("policies", podSelector={"matchLabels": selector("demo")}),
        specced(
            "policies",
            podSelector={"matchLabels": selector("demo")},
            policyTypes=["Ingress", "Egress"],
            ingress=[{}],
        ),
    ],
    "template-closed": [
        *(opened(**{member: True}) for member in ("hostNetwork", "hostPID", "hostIPC")),
        opened(serviceAccountName="admin"),
        opened(volumes=[{"name": "host", "hostPath": {"path": "/"}}]),
        *(
            opened(**{group: [{"name": "c", "securityContext": {"privileged": True}}]})
            for group in ("containers", "initContainers")
        ),
    ],
    "storage-child-owner": [
        disowned("claims", STORAGE, annotations={}),
        disowned("jobs", JOB, ownerReferences=(owner("demo"),)),
        disowned("claims", STORAGE, annotations={labels.OWNER_UID: "uid-gone"}),
        disowned("services", f"storage-accessor-{STORAGE}", ownerReferences=GONE_STORAGE),
        labelled("services", f"storage-accessor-{STORAGE}", labels.STORAGE, "other"),
        plus("claims", VolumeClaim(metadata=claim_metadata("other"))),
        disowned("claims", STORAGE, ownerReferences=storage_metadata(STORAGE).ownerReferences),
    ],
    "storage-once": [
        plus("pods", unit_pod("next")),
        plus("pods", with_metadata(unit_pod("next"), deletionTimestamp=LATER)),
    ],
    "storage-held": [
        LET_GO,
        GIVEN_ON,
        told("storages", STORAGE, holder=Holder(name="demo", uid="uid-older")),
        both(
            plus("deployments", deployment("next", claim=STORAGE)),
            plus("policies", policy("next")),
        ),
    ],
    "storage-kept": [
        both(
            plus("pods", copying_pod("copy")),
            *(minus("pods", name) for name in ("unit-demo-1", f"storage-accessor-{STORAGE}-1")),
            disowned("storages", STORAGE, finalizers=()),
        ),
        minus("storages", STORAGE),
        disowned("storages", STORAGE, finalizers=()),
        minus("claims", STORAGE),
        ending("claims", STORAGE),
    ],
    "storage-filled": [
        *(prepare(phase) for phase in ("", "Pending", "Running", "Failed")),
        both(minus("pods", "unit-demo-1"), plus("pods", copying_pod("copy")), prepare("Running")),
        told(
            "storages",
            STORAGE,
            phase="Pending",
            capacity="",
            conditions=ready("VolumePending"),
        ),
    ],
    "storage-node": [mounted("unit-demo-1", STORAGE, node="node-2")],
    "storage-given-back": [
        both(minus("pods", "unit-demo-1"), minus("deployments", "unit-demo"), GIVEN_ON),
        both(
            minus("pods", "unit-demo-1"),
            minus("deployments", "unit-demo"),
            edit("units", "demo", lambda unit: with_spec(unit, storageMounts=())),
        ),
        both(
            minus("pods", "unit-demo-1"),
            minus("deployments", "unit-demo"),
            told("storages", STORAGE, holder=Holder(name="demo", uid="uid-older")),
        ),
    ],
    "prepare-once": [
        plus("jobs", job("storage-prepare-data-2", ended="")),
        both(*(plus("jobs", job(f"again-{number}", ended="")) for number in (1, 2))),
        both(minus("jobs", JOB), plus("jobs", job(ended=""))),
        both(minus("jobs", JOB), plus("jobs", job(ended="")), prepare("Failed")),
        both(minus("jobs", JOB), plus("jobs", job(uid="uid-gone"))),
        both(plus("pods", filling_pod(JOB)), plus("pods", filling_pod("again"))),
        both(
            FILLS,
            plus("pods", with_metadata(filling_pod("gone"), deletionTimestamp=LATER)),
        ),
    ],
    "stock-empty": [
        edit(
            "stock",
            "p-2",
            lambda unit: with_spec(
                unit, storageMounts=(StorageMount(name=STORAGE, mountPath="/data"),)
            ),
        ),
        told("storages", STORAGE, holder=Holder(name="demo", uid="uid-p-2")),
    ],
}
# Faults that cause other faults.
FOLLOWS = {
    ("pool-sum", "claim-held"),
    ("claim-held", "pool-sum"),
    ("claim-held", "claim-settled"),
    ("claim-held", "unit-isolated"),
    ("stock-once", "unit-isolated"),
    ("storage-once", "unit-isolated"),
    ("ordinal-recorded", "pool-sum"),
    ("stock-of-pool", "pool-sum"),
    ("storage-child-owner", "storage-kept"),
    ("storage-child-owner", "prepare-once"),
    ("storage-held", "storage-given-back"),
    ("storage-kept", "storage-child-owner"),
    ("storage-once", "storage-held"),
    ("prepare-once", "storage-filled"),
    ("prepare-once", "storage-child-owner"),
    ("storage-filled", "prepare-once"),
    ("stock-empty", "storage-held"),
    ("child-owner", "storage-held"),
    ("child-owner", "unit-isolated"),
    ("unit-isolated", "child-owner"),
    ("child-selects", "policy-applied"),
    ("child-owner", "child-selects"),
    ("unit-isolated", "child-selects"),
}


def test_a_sound_snapshot_has_no_breach_however_long_it_lasts() -> None:
    assert suspicions(sound()) == []
    assert breaches(aged(sound(), 1e9)) == []


def test_an_empty_cluster_has_no_breach() -> None:
    assert breaches(Snapshot()) == []


@pytest.mark.parametrize(("rule", "corrupt"), cases(CORRUPTIONS))
def test_a_lasting_corruption_is_a_breach_of_its_rule(rule: str, corrupt: Corruption) -> None:
    demand_breach(rule, corrupt(sound()), FOLLOWS)


def test_the_next_unit_of_a_name_need_not_isolate_the_children_of_a_deleted_unit() -> None:
    """The namespace's own policy isolates them, and the next unit waits until they have ended."""
    kept = both(minus("policies", "unit-demo"), owned("deployments", owner("gone")))
    broken = rules_broken(aged(kept(sound()), 3_600))
    assert "child-owner" in broken
    assert "unit-isolated" not in broken


def test_every_rule_is_tested() -> None:
    assert {*CORRUPTIONS, *test_functions.CORRUPTIONS} == {rule.name for rule in RULES}
    assert len(RULES) == len({rule.name for rule in RULES})


def test_a_breach_names_its_objects_what_is_wrong_and_what_to_do() -> None:
    (breach,) = breaches(told("units", "demo", phase="Failed")(sound()))
    (named,) = breach.objects
    assert (named.kind, named.namespace, named.name) == ("GPUUnit", INSTANCE, "demo")
    assert named.uid == "uid-demo"
    assert breach.message == (
        "GPUUnit runtime-instance/demo is in no single state: "
        "the phase is Failed, the conditions say Ready"
    )
    assert "manager" in breach.remedy


def test_children_beside_a_deployment_of_an_older_version_select_by_name_alone() -> None:
    name = {labels.UNIT: "demo"}
    older = both(
        specced("deployments", selector={"matchLabels": name}),
        specced("services", selector=name),
    )
    broken = {each.finding.objects[0].kind for each in suspicions(older(sound()))}
    assert broken == {"NetworkPolicy"}


LASTING = {
    "a claim whose unit is gone": (minus("units", "next"), "claim-settled", 180),
    "a started unit whose stock is there": (NEXT_STARTED, "claim-settled", 300),
    "a child whose unit is gone": (owned("services", owner("gone")), "child-owner", 120),
    "a Pod whose unit is gone": (CORRUPTIONS["pod-owner"][0], "pod-owner", 120),
    "stock whose pool is gone": (minus("pools", "p"), "stock-pool", 180),
    "a tombstone whose unit is there": (CORRUPTIONS["deletion-ends"][0], "deletion-ends", 180),
    "a pool that counts late": (minus("stock", "p-3"), "pool-sum", 180),
    "a Pod that outlives its Deployment": (
        CORRUPTIONS["unit-isolated"][3],
        "unit-isolated",
        60,
    ),
    "a child whose storage is gone": (
        CORRUPTIONS["storage-child-owner"][3],
        "storage-child-owner",
        120,
    ),
    "a claim that its storage owns": (
        CORRUPTIONS["storage-child-owner"][6],
        "storage-child-owner",
        120,
    ),
    "a hold of a unit that is gone": (
        CORRUPTIONS["storage-given-back"][1],
        "storage-given-back",
        300,
    ),
    "a file server on another node": (CORRUPTIONS["storage-node"][0], "storage-node", 180),
}


@pytest.mark.parametrize("name", LASTING)
def test_a_temporary_finding_is_a_breach_only_if_it_lasts(name: str) -> None:
    corrupt, rule, seconds = LASTING[name]
    snapshot = corrupt(sound())
    assert rules_broken(snapshot) == set()
    assert rules_broken(aged(snapshot, seconds - 1)) == set()
    assert rule in rules_broken(aged(snapshot, seconds))


def test_another_attempt_of_a_claim_starts_its_time_again() -> None:
    snapshot = aged(minus("units", "next")(sound()), 3_600)
    restamped = noted("stock", "p-4", CLAIM_ATTEMPT="a.2")(snapshot)
    assert breaches(restamped) == []


ENDING: Any = {"deletionTimestamp": LATER}


def test_an_owner_with_the_same_name_and_another_uid_is_no_owner() -> None:
    snapshot = edit("units", "demo", lambda unit: with_metadata(unit, uid="uid-new"))(sound())
    assert "child-owner" in rules_broken(aged(snapshot, 120))


ALLOWED: dict[str, Corruption] = {
    "stale stock while another unit starts": both(
        edit("stock", "p-2", lambda held: with_spec(held, image="old")),
        STARTING,
        told("pools", "p", stale=1),
    ),
    "stale stock that is claimed": edit("stock", "p-4", lambda held: with_spec(held, image="old")),
    "stale stock of a pool that is refused": both(
        STALE_AND_FAILED,
        told("pools", "p", stale=1, phase="Failed", conditions=ready("InvalidSpec")),
    ),
    "an ending child without an owner": both(
        owned("deployments"),
        edit("deployments", "unit-demo", lambda held: with_metadata(held, **ENDING)),
    ),
    "somebody else's Deployment": both(
        owned("deployments"), unlabelled("deployments", "unit-demo", labels.MANAGED_BY)
    ),
    "an ending Pod without its unit": plus(
        "pods", Pod(metadata=attrs.evolve(child_metadata("gone"), **ENDING))
    ),
    "ending stock that is claimed for nobody": both(
        minus("units", "next"),
        edit("stock", "p-4", lambda held: with_metadata(held, **ENDING)),
    ),
    "a unit that is suspended and not yet seen": edit(
        "units", "demo", lambda unit: with_metadata(with_spec(unit, suspended=True), generation=2)
    ),
    "the template of a function": both(
        edit("units", "demo", lambda u: with_spec(u, serverless=Serverless(requestID="f"))),
        told(
            "units",
            "demo",
            phase="Ready",
            readyReplicas=0,
            conditions=ready("FunctionDeclared"),
        ),
    ),
    "a unit that nobody has looked at": edit(
        "units", "next", lambda unit: attrs.evolve(unit, status=type(unit.status)())
    ),
    "a unit written by hand": both(
        unlabelled("units", "next", labels.UNIT),
        unlabelled("units", "next", labels.SPEC),
        unlabelled("units", "next", labels.MANAGED_BY),
    ),
    "an ordinal that is not yet recorded": told("pools", "p", seeded=3),
    "ordinals that were skipped": told("pools", "p", seeded=6, skipped=2),
    "a unit later than a pool that follows another of its name": both(
        plus("tombstones", tombstone("old-p", kind="StockPool", name="p", uid="uid-older")),
        edit(
            "pools",
            "p",
            lambda held: with_metadata(held, creationTimestamp=LATER - timedelta(seconds=60)),
        ),
        told("pools", "p", seeded=0, consumed=0, available=2),
        minus("stock", "p-4"),
        told("pools", "p", claimed=0),
        NEXT_STARTED,
    ),
    "a rival that has not started": plus(
        "units", active_unit("rival", 1, operation="one", started=False)
    ),
    "a claim that is superfluous for a moment": plus(
        "stock", stock_unit(5, **claim_marks("next", "two"))
    ),
    "a tombstone of another unit of the name": plus(
        "tombstones", tombstone("one", name="demo", uid="uid-older")
    ),
    "a Pod that has ended and mounts a storage": plus(
        "pods", attrs.evolve(unit_pod("next"), status=PodStatus(phase="Failed"))
    ),
    "a storage that ends while it is mounted": ending("storages", STORAGE),
    "a suspended unit that holds a storage": both(
        minus("pods", "unit-demo-1"), minus("deployments", "unit-demo")
    ),
    "an ending file server on another node": both(
        minus("pods", f"storage-accessor-{STORAGE}-1"),
        plus("pods", with_metadata(server_pod(node="node-2"), deletionTimestamp=LATER)),
    ),
    "Jobs of the past": both(
        plus("jobs", job("again-1", ended="Failed")), plus("jobs", job("again-2"))
    ),
    "a recorded Job that was collected": minus("jobs", JOB),
    "a Job and its Pod": both(FILLS, plus("pods", filling_pod(JOB))),
    "a Pod that a removed Job has left": both(
        FILLS, minus("jobs", JOB), plus("pods", filling_pod(JOB))
    ),
    "a suspended Job beside the Pod of the run before": both(
        FILLS,
        prepare("Pending"),
        edit("jobs", JOB, lambda held: with_spec(held, suspend=True)),
        plus("pods", filling_pod("again")),
    ),
    "a Job beside a Pod of the run before that has ended": both(
        FILLS,
        plus("pods", attrs.evolve(filling_pod("again"), status=PodStatus(phase="Failed"))),
    ),
    "a Job of the past under the recorded name": both(
        prepare("Pending"),
        LET_GO,
        minus("pods", "unit-demo-1"),
        minus("deployments", "unit-demo"),
        disowned("jobs", JOB, ownerReferences=GONE_STORAGE),
    ),
    "a volume that came to grief under its Pod": told(
        "storages", STORAGE, phase="Failed", conditions=ready("VolumeLost")
    ),
    "a claim of its storage's own that has no volume yet": both(
        told("claims", STORAGE, phase="Pending"),
        disowned("claims", STORAGE, ownerReferences=storage_metadata(STORAGE).ownerReferences),
    ),
    "a copy of what a unit mounts": plus("pods", copying_pod("copy")),
    "a pool of more than it was made for": both(
        *(plus("stock", stock_unit(ordinal)) for ordinal in (5, 6)),
        edit("pools", "p", lambda held: with_metadata(with_spec(held, replicas=2), generation=2)),
        told("pools", "p", seeded=6, available=4),
    ),
}


@pytest.mark.parametrize("name", ALLOWED)
def test_correct_operation_shows_no_breach(name: str) -> None:
    assert breaches(ALLOWED[name](sound())) == []


def test_started_stock_waits_while_a_name_in_use_delays_the_record() -> None:
    stuck = told("pools", "p", seeded=2, phase="Progressing", conditions=ready("StockSyncFailed"))
    snapshot = aged(both(NEXT_STARTED, stuck)(sound()), 3_600)
    assert "claim-settled" not in rules_broken(snapshot)


def test_rules_whose_kinds_are_not_read_are_not_judged() -> None:
    snapshot = attrs.evolve(
        sound(),
        deployments=None,
        services=None,
        policies=None,
        pods=None,
        claims=None,
        jobs=None,
        tombstones=None,
        units=(),
    )
    names = {rule.name for rule in RULES if not rule.is_judged(snapshot)}
    assert {"child-owner", "pod-owner", "deletion-ends", "unit-isolated"} <= names
    assert names == {rule.name for rule in RULES if {*rule.needs} - {"storages"}}
    assert all(rule.is_judged(sound()) for rule in RULES)


def test_a_snapshot_counts_its_objects() -> None:
    assert sound().object_count == sum(len(getattr(sound(), kind)) for kind in KINDS) == 16
    assert MADE < LATER
