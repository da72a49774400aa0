"""The plan of a storage: its writes in order, the reason to report, and when to look again."""

from datetime import UTC, datetime
from typing import Any, Final

import attrs
import pytest

from gpuruntime.models.kinds import labels
from gpuruntime.models.kinds.reasons import StorageReason
from gpuruntime.models.kinds.storages import (
    FINALIZER,
    Accessor,
    GPUStorage,
    GPUStorageSpec,
    GPUStorageStatus,
    Holder,
    Prepare,
    PrepareStatus,
)
from gpuruntime.models.kinds.tombstones import DeletedObject, Tombstone
from gpuruntime.models.kubernetes.conditions import Condition
from gpuruntime.models.kubernetes.metadata import ObjectMeta, OwnerReference
from gpuruntime.models.kubernetes.pods import Pod
from gpuruntime.models.kubernetes.volumes import (
    ClaimResources,
    Job,
    JobSpec,
    JobStatus,
    StorageClass,
    VolumeClaim,
    VolumeClaimSpec,
    VolumeClaimStatus,
)
from gpuruntime.models.kubernetes.workloads import Deployment
from gpuruntime.reconcilers.options import UnitOptions
from gpuruntime.reconcilers.storage.intents import (
    AddFinalizer,
    CreateJob,
    GiveBack,
    Intent,
    LetGo,
    Plan,
    ReleaseJob,
    RemoveLate,
    ServeFiles,
    StopServing,
    Written,
)
from gpuruntime.reconcilers.storage.observed import Holding, Observed
from gpuruntime.reconcilers.storage.plan import (
    AT_ONCE,
    LOOK_AGAIN_SECONDS,
    decide,
    findings_after,
)
from gpuruntime.reconcilers.storage.status import Findings, ready_verdict
from gpuruntime.reconcilers.storage.verdict import StorageVerdict
from gpuruntime.reconcilers.storage.volume_plan import GrowClaim, MakeClaim, ShelterClaim
from tests.options import configured

MOMENT: Final = datetime(2026, 1, 1, tzinfo=UTC)
OWNER: Final = OwnerReference(kind="GPUStorage", name="s", uid="1", controller=True)
FILL: Final = Prepare(fromImage="busybox:1.36", command=("fill",))
COPY: Final = Prepare(fromStorageName="t")
UNIT: Final = Holder(name="u", uid="9")
GROWING: Final = StorageClass(allowVolumeExpansion=True)
SUSPENDED: Final = Job(metadata=ObjectMeta(ownerReferences=(OWNER,)), spec=JobSpec(suspend=True))
RUNNING: Final = Job(metadata=ObjectMeta(ownerReferences=(OWNER,)))
COMPLETE: Final = Job(
    metadata=ObjectMeta(ownerReferences=(OWNER,)),
    status=JobStatus(conditions=(Condition(type="Complete", status="True"),)),
)
NO_RECORD: Final = PrepareStatus()
PENDING: Final = PrepareStatus(phase="Pending", jobName="j", observedDigest="d")
STARTED: Final = PrepareStatus(phase="Running", jobName="j", observedDigest="d")
LATE: Final = Tombstone(
    operation_id="op",
    expires_at=MOMENT,
    buried=(DeletedObject(kind="GPUStorage", namespace="n", name="s", uid="0", requestHash="h"),),
)
OPERATION: Final = {labels.OPERATION_ID: "op", labels.REQUEST_HASH: "h"}


def storage(
    *,
    size: str = "10Gi",
    prepare: Prepare | None = None,
    serves: bool = False,
    holder: Holder | None = None,
    record: PrepareStatus = NO_RECORD,
    capacity: str = "",
    **metadata: Any,
) -> GPUStorage:
    given = {"finalizers": (FINALIZER,), **metadata}
    return GPUStorage(
        metadata=ObjectMeta(name="s", namespace="n", uid="1", **given),
        spec=GPUStorageSpec(size=size, prepare=prepare, accessor=Accessor(enabled=serves)),
        status=GPUStorageStatus(holder=holder, prepare=record, capacity=capacity),
    )


def claim(phase: str = "Bound", *, uid: str = "1", **metadata: Any) -> VolumeClaim:
    return VolumeClaim(
        metadata=ObjectMeta(
            name="s", namespace="n", annotations={labels.OWNER_UID: uid}, **metadata
        ),
        spec=VolumeClaimSpec(resources=ClaimResources(requests={"storage": "10Gi"})),
        status=VolumeClaimStatus(phase=phase, capacity={"storage": "10Gi"}),
    )


def seen(of: GPUStorage, held: VolumeClaim | None = None, **more: Any) -> Observed:
    return Observed(storage=of, claim=held, **more)


def names(intents: tuple[Intent, ...]) -> list[type[Intent]]:
    return [type(each) for each in intents]


def reason(plan: Plan) -> str | None:
    match plan.findings:
        case Findings() as found:
            return str(ready_verdict(found).reason)
        case StorageVerdict(reason=told):
            return str(told)
        case None:
            return None


@pytest.mark.parametrize(
    ("observed", "intents", "told", "again_seconds"),
    [
        pytest.param(
            seen(storage(holder=UNIT), claim(), holding=Holding.LET_GO),
            [GiveBack],
            None,
            None,
            id="a holder that let go: give back, and nothing else in this pass",
        ),
        pytest.param(
            seen(storage(finalizers=())),
            [AddFinalizer],
            None,
            None,
            id="new: the finalizer comes before the first child",
        ),
        pytest.param(
            seen(storage(finalizers=(), annotations=OPERATION), tombstone=LATE),
            [RemoveLate],
            None,
            None,
            id="created after its operation ended: delete it",
        ),
        pytest.param(
            seen(storage(size="")),
            [StopServing],
            "InvalidSpec",
            None,
            id="an invalid spec: no step begins",
        ),
        pytest.param(
            seen(storage(prepare=COPY), circle=("s", "t", "s")),
            [StopServing],
            "InvalidSpec",
            None,
            id="a cycle of copies: no step begins",
        ),
        pytest.param(
            seen(storage(size="", serves=True), claim(), server=Deployment()),
            [ServeFiles],
            "InvalidSpec",
            None,
            id="an invalid spec with a file server: it serves on",
        ),
        pytest.param(
            seen(storage()),
            [MakeClaim, StopServing],
            "VolumePending",
            LOOK_AGAIN_SECONDS,
            id="no claim yet: create it; the rest is for a refusal",
        ),
        pytest.param(
            seen(storage(capacity="10Gi")),
            [StopServing],
            "VolumeLost",
            None,
            id="a claim that had a volume is gone: never create another",
        ),
        pytest.param(
            seen(storage(), claim(uid="0")),
            [StopServing],
            "VolumeSyncFailed",
            LOOK_AGAIN_SECONDS,
            id="the claim of an earlier storage: leave it alone",
        ),
        pytest.param(
            seen(storage(), claim(ownerReferences=(OWNER,))),
            [ShelterClaim, StopServing],
            "PrepareProgressing",
            LOOK_AGAIN_SECONDS,
            id="a bound claim that the storage owns: shelter it; the rest is for a refusal",
        ),
        pytest.param(
            seen(storage(), claim("Pending", ownerReferences=(OWNER,))),
            [StopServing],
            "VolumePending",
            None,
            id="a claim that is being bound: wait",
        ),
        pytest.param(
            seen(storage(size="20Gi"), claim(), storage_class=GROWING),
            [GrowClaim, StopServing],
            "VolumeReady",
            None,
            id="a larger size: grow the claim",
        ),
        pytest.param(
            seen(storage(serves=True), claim()),
            [ServeFiles],
            "VolumeReady",
            None,
            id="a volume with nothing to prepare: serve its files",
        ),
        pytest.param(
            seen(storage(prepare=FILL, serves=True), claim()),
            [StopServing],
            "PrepareProgressing",
            AT_ONCE,
            id="a prepare that may begin: record the run, and begin it in the next pass",
        ),
        pytest.param(
            seen(storage(prepare=FILL, holder=UNIT), claim(), holding=Holding.WANTED),
            [StopServing],
            "PrepareProgressing",
            None,
            id="a prepare of a held storage: wait for the holder",
        ),
        pytest.param(
            seen(storage(prepare=FILL), claim(), pods_left=("p",)),
            [StopServing],
            "PrepareProgressing",
            None,
            id="a prepare beside another Pod: wait for its end",
        ),
        pytest.param(
            seen(storage(prepare=COPY), claim()),
            [StopServing],
            "SourceNotReady",
            None,
            id="a copy without its source: wait",
        ),
        pytest.param(
            seen(storage(prepare=FILL, record=PENDING), claim()),
            [CreateJob, StopServing],
            "PrepareProgressing",
            None,
            id="a recorded run without a Job: create it, suspended",
        ),
        pytest.param(
            seen(storage(prepare=FILL, record=PENDING), claim(), job=SUSPENDED),
            [StopServing],
            "PrepareProgressing",
            AT_ONCE,
            id="a suspended Job: record that it runs, and release it in the next pass",
        ),
        pytest.param(
            seen(storage(prepare=FILL, record=STARTED), claim(), job=SUSPENDED),
            [ReleaseJob, StopServing],
            "PrepareProgressing",
            None,
            id="a suspended Job that is recorded as running: release it",
        ),
        pytest.param(
            seen(storage(prepare=FILL, record=STARTED), claim(), job=RUNNING),
            [StopServing],
            "PrepareProgressing",
            LOOK_AGAIN_SECONDS,
            id="a running Job without a Pod: look again, as no event will tell",
        ),
        pytest.param(
            seen(storage(prepare=FILL, record=STARTED), claim(), job=RUNNING, job_pods=(Pod(),)),
            [StopServing],
            "PrepareProgressing",
            None,
            id="a running Job with a Pod: wait for its events",
        ),
        pytest.param(
            seen(storage(prepare=FILL, record=STARTED, serves=True), claim(), job=COMPLETE),
            [ServeFiles],
            "VolumeReady",
            None,
            id="a complete Job: serve the files",
        ),
        pytest.param(
            seen(storage(prepare=FILL, record=STARTED, serves=True), claim()),
            [StopServing],
            "PrepareFailed",
            None,
            id="a Job that was removed before its end: never create it again",
        ),
        pytest.param(
            seen(storage(serves=True), claim(deletionTimestamp=MOMENT)),
            [ServeFiles],
            "VolumeEnding",
            None,
            id="a claim that is being deleted: serve, so that its data can be saved",
        ),
        pytest.param(
            seen(storage(holder=UNIT), claim(), holding=Holding.KEPT),
            [StopServing],
            "VolumeReady",
            LOOK_AGAIN_SECONDS,
            id="an unwanted holder with Pods: look again",
        ),
        pytest.param(
            seen(storage(deletionTimestamp=MOMENT, holder=UNIT), claim(), is_in_use=True),
            [],
            "VolumeEnding",
            LOOK_AGAIN_SECONDS,
            id="deleted while held: keep everything",
        ),
        pytest.param(
            seen(storage(deletionTimestamp=MOMENT), claim(), is_in_use=True),
            [],
            "VolumeEnding",
            LOOK_AGAIN_SECONDS,
            id="deleted while a Pod or a copy uses it: keep everything",
        ),
        pytest.param(
            seen(
                storage(deletionTimestamp=MOMENT),
                claim(ownerReferences=(OWNER,)),
                is_in_use=True,
            ),
            [ShelterClaim],
            "VolumeEnding",
            LOOK_AGAIN_SECONDS,
            id="deleted while used, with a claim that would be collected: shelter it",
        ),
        pytest.param(
            seen(storage(deletionTimestamp=MOMENT), claim(), live_claim=claim()),
            [LetGo],
            None,
            None,
            id="deleted and unused: let go",
        ),
        pytest.param(
            seen(storage(deletionTimestamp=MOMENT, finalizers=("another",)), claim()),
            [],
            None,
            None,
            id="deleted and let go: nothing is left to do",
        ),
    ],
)
def test_what_a_storage_needs_next(
    observed: Observed, intents: list[type], told: str | None, again_seconds: float | None
) -> None:
    plan = decide(observed, configured(UnitOptions))
    assert names(plan.intents) == intents
    assert reason(plan) == told
    assert plan.again_seconds == again_seconds


@pytest.mark.parametrize(
    ("live", "taken"),
    [
        (claim(), claim()),
        (claim(uid="0"), None),
        (claim(deletionTimestamp=MOMENT), None),
        (None, None),
    ],
    ids=["its own", "an earlier storage's", "one that is being deleted", "none"],
)
def test_only_the_storages_own_claim_is_deleted_with_it(
    live: VolumeClaim | None, taken: VolumeClaim | None
) -> None:
    going = storage(deletionTimestamp=MOMENT)
    plan = decide(seen(going, claim(), live_claim=live), configured(UnitOptions))
    assert plan.intents == (LetGo(taken),)


def test_a_run_is_recorded_in_the_status_that_is_reported() -> None:
    plan = decide(seen(storage(prepare=FILL), claim()), configured(UnitOptions))
    assert isinstance(plan.findings, Findings)
    assert plan.findings.prepare.status.phase == "Pending"


def test_a_refused_write_replaces_the_planned_verdict() -> None:
    plan = decide(seen(storage()), configured(UnitOptions))
    refusal = attrs.evolve(_volume(plan), message="exceeded quota")
    found = findings_after(plan, Written(volume=refusal, is_refused=True))
    assert isinstance(found, Findings)
    assert found.volume.message == "exceeded quota"


def test_an_invalid_spec_stays_reported_if_a_write_is_refused() -> None:
    plan = decide(seen(storage(size=""), claim(ownerReferences=(OWNER,))), configured(UnitOptions))
    assert names(plan.intents) == [ShelterClaim, StopServing]
    refusal = attrs.evolve(_volume(plan), message="no", reason=StorageReason.VOLUME_SYNC_FAILED)
    found = findings_after(plan, Written(volume=refusal, is_refused=True))
    assert isinstance(found, Findings)
    assert found.volume.reason == "InvalidSpec"


def _volume(plan: Plan) -> StorageVerdict:
    assert isinstance(plan.findings, Findings)
    return plan.findings.volume
