"""What a storage needs next: decided without a cluster."""

from datetime import UTC, datetime
from typing import Any

import attrs
import pytest

from gpuruntime.models.kinds.reasons import StorageReason
from gpuruntime.models.kinds.storages import (
    RECOVER,
    GPUStorage,
    GPUStorageSpec,
    GPUStorageStatus,
    Prepare,
    PrepareStatus,
    prepare_digest,
)
from gpuruntime.models.kubernetes.conditions import Condition
from gpuruntime.models.kubernetes.metadata import ObjectMeta
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
from gpuruntime.reconcilers.storage.plan import (
    GrowClaim,
    KeepClaim,
    MakeClaim,
    claim_move,
    prepare_step,
    resting_step,
    source_missing,
    volume_verdict,
)

FILL = Prepare(fromImage="busybox:1.36", command=("fill",))
GROWING = StorageClass(allowVolumeExpansion=True)
FIXED = StorageClass()
LATE = StorageClass(volumeBindingMode="WaitForFirstConsumer")
DONE = Job(status=JobStatus(conditions=(Condition(type="Complete", status="True"),)))
BROKEN = Job(
    status=JobStatus(
        conditions=(
            Condition(type="Failed", status="True", reason="BackoffLimitExceeded", message="m"),
        )
    )
)
RUNNING = Job()
SUSPENDED = Job(spec=JobSpec(suspend=True))


def storage(
    *,
    prepare: Prepare | None = None,
    size: str = "10Gi",
    nonce: str = "",
    capacity: str = "",
    **record: Any,
) -> GPUStorage:
    annotations = {RECOVER: nonce} if nonce else {}
    return GPUStorage(
        metadata=ObjectMeta(name="s", uid="1", annotations=annotations),
        spec=GPUStorageSpec(size=size, prepare=prepare),
        status=GPUStorageStatus(capacity=capacity, prepare=PrepareStatus(**record)),
    )


def claim(phase: str = "Bound", *, size: str = "10Gi", capacity: str = "10Gi") -> VolumeClaim:
    return VolumeClaim(
        spec=VolumeClaimSpec(
            storageClassName="fast", resources=ClaimResources(requests={"storage": size})
        ),
        status=VolumeClaimStatus(phase=phase, capacity={"storage": capacity} if capacity else {}),
    )


def step(of: GPUStorage, job: Job | None = None, *, waits: str = "", words: str = "") -> Any:
    return prepare_step(of, job, waits=source_missing(waits) if waits else None, words=words)


def test_a_claim_is_made_once() -> None:
    assert claim_move(storage(), None, None) == MakeClaim()
    assert claim_move(storage(), claim(), FIXED) == KeepClaim()


def test_a_claim_that_had_a_volume_is_never_made_again() -> None:
    """An empty volume under the name of a full one would hide the loss."""
    lost = storage(capacity="10Gi")
    assert claim_move(lost, None, None) == KeepClaim()
    verdict = volume_verdict(lost, None, None)
    assert (verdict.is_true, verdict.reason) == (False, StorageReason.VOLUME_LOST)


def test_a_claim_grows_where_its_class_lets_it() -> None:
    larger = storage(size="20Gi")
    assert claim_move(larger, claim(), GROWING) == GrowClaim()
    assert claim_move(larger, claim(), FIXED) == KeepClaim()
    assert claim_move(larger, claim("Pending"), GROWING) == KeepClaim()
    assert claim_move(larger, claim(size="20480Mi"), GROWING) == KeepClaim()


def test_a_class_that_cannot_grow_is_told_and_the_volume_stays_usable() -> None:
    verdict = volume_verdict(storage(size="20Gi"), claim(), FIXED)
    assert (verdict.is_true, verdict.reason) == (True, StorageReason.EXPANSION_REFUSED)
    assert "stays at 10Gi" in verdict.message


@pytest.mark.parametrize(
    ("found", "of", "is_true", "reason"),
    [
        (claim(), FIXED, True, StorageReason.VOLUME_READY),
        (claim("Pending", capacity=""), FIXED, False, StorageReason.VOLUME_PENDING),
        (claim("", capacity=""), FIXED, False, StorageReason.VOLUME_PENDING),
        (claim("Pending", capacity=""), LATE, True, StorageReason.VOLUME_READY),
        (claim("Lost"), FIXED, False, StorageReason.VOLUME_LOST),
        (None, None, False, StorageReason.VOLUME_PENDING),
    ],
)
def test_a_volume_is_as_its_claim_says(
    found: VolumeClaim | None, of: StorageClass | None, is_true: bool, reason: StorageReason
) -> None:
    verdict = volume_verdict(storage(), found, of)
    assert (verdict.is_true, verdict.reason) == (is_true, reason)


@pytest.mark.parametrize(
    ("phase", "reason"),
    [
        ("Bound", StorageReason.VOLUME_ENDING),
        ("Lost", StorageReason.VOLUME_LOST),
        ("Pending", StorageReason.VOLUME_PENDING),
    ],
)
def test_a_claim_that_is_being_deleted_is_not_sound_and_does_not_grow(
    phase: str, reason: StorageReason
) -> None:
    found = claim(phase)
    metadata = ObjectMeta(deletionTimestamp=datetime(2026, 3, 1, tzinfo=UTC))
    going = attrs.evolve(found, metadata=metadata)
    verdict = volume_verdict(storage(), going, FIXED)
    assert (verdict.is_true, verdict.reason) == (False, reason)
    assert claim_move(storage(size="20Gi"), going, GROWING) == KeepClaim()


def test_nothing_to_prepare_is_prepared() -> None:
    found = step(storage())
    assert found.verdict.is_true
    assert not found.makes_job


def test_a_run_is_recorded_before_its_job_is_made() -> None:
    found = step(storage(prepare=FILL))
    assert found.makes_job
    assert (found.status.phase, found.status.recoveryPhase) == ("Pending", "")
    assert found.status.observedDigest == prepare_digest(storage(prepare=FILL))
    assert found.status.jobName == f"storage-prepare-s-{found.status.observedDigest}"


def test_a_recorded_run_whose_job_is_not_there_yet_gets_it() -> None:
    begun = storage(prepare=FILL, phase="Pending", jobName="j", observedDigest="d")
    assert step(begun).makes_job


def test_a_job_that_is_gone_before_its_end_fails_the_prepare() -> None:
    running = storage(prepare=FILL, phase="Running", jobName="j", observedDigest="d")
    found = step(running)
    assert not found.makes_job
    assert (found.status.phase, found.verdict.reason) == ("Failed", StorageReason.PREPARE_FAILED)
    assert "Job j was removed before it ended" in found.verdict.message


@pytest.mark.parametrize(
    ("job", "phase"), [(RUNNING, "Running"), (DONE, "Succeeded"), (BROKEN, "Failed")]
)
def test_the_record_follows_the_job(job: Job, phase: str) -> None:
    begun = storage(prepare=FILL, phase="Pending", jobName="j", observedDigest="d")
    found = step(begun, job)
    assert found.status.phase == phase
    assert found.verdict.is_true is (phase == "Succeeded")
    assert not found.makes_job


def test_a_failure_is_told_in_the_pods_words() -> None:
    begun = storage(prepare=FILL, phase="Running", jobName="j", observedDigest="d")
    assert step(begun, BROKEN, words="p/prepare: Error: exit code 3: no disk").verdict.message == (
        "p/prepare: Error: exit code 3: no disk; mend what it needs and ask to recover"
    )
    assert step(begun, BROKEN).verdict.message.startswith("BackoffLimitExceeded: m")


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_run_that_ended_is_over_whatever_becomes_of_its_job(phase: str) -> None:
    ended = storage(prepare=FILL, phase=phase, jobName="j", observedDigest="d")
    for job in (None, DONE, BROKEN):
        found = step(ended, job)
        assert found.status == ended.status.prepare
        assert not found.makes_job


def failed(**more: Any) -> GPUStorage:
    first = storage(prepare=FILL)
    digest = prepare_digest(first)
    return storage(prepare=FILL, phase="Failed", jobName="j", observedDigest=digest, **more)


def test_a_failed_prepare_runs_again_once_it_is_asked_to() -> None:
    assert not step(failed()).makes_job
    found = step(failed(nonce="a"))
    assert found.makes_job
    assert (found.status.phase, found.status.recoveryPhase) == ("Pending", "Pending")
    assert found.status.observedDigest != failed().status.prepare.observedDigest


def test_a_recovery_that_failed_has_to_be_asked_for_anew() -> None:
    digest = prepare_digest(failed(nonce="a"))
    again = storage(
        prepare=FILL, nonce="a", phase="Failed", observedDigest=digest, recoveryPhase="Failed"
    )
    assert not step(again).makes_job
    asked = attrs.evolve(again, metadata=attrs.evolve(again.metadata, annotations={RECOVER: "b"}))
    assert step(asked).makes_job


def test_another_prepare_does_not_run_by_itself() -> None:
    """Neither after a failure nor over what a good run has put there."""
    other = Prepare(fromImage="busybox:1.37", command=("fill",))
    for phase in ("Failed", "Succeeded"):
        held = failed()
        changed = attrs.evolve(
            held,
            spec=attrs.evolve(held.spec, prepare=other),
            status=attrs.evolve(
                held.status, prepare=attrs.evolve(held.status.prepare, phase=phase)
            ),
        )
        assert not step(changed).makes_job


def test_a_copy_waits_for_its_source_and_says_so() -> None:
    found = step(storage(prepare=Prepare(fromStorageName="t")), waits="storage t is not ready")
    assert not found.makes_job
    assert found.verdict.reason is StorageReason.SOURCE_NOT_READY
    assert found.verdict.message == "storage t is not ready"


def test_a_run_that_is_recorded_waits_for_a_source_that_goes_meanwhile() -> None:
    begun = storage(prepare=Prepare(fromStorageName="t"), phase="Pending", jobName="j")
    found = step(begun, waits="storage t is being deleted")
    assert not found.makes_job
    assert found.status == begun.status.prepare
    assert found.verdict.reason is StorageReason.SOURCE_NOT_READY


def test_a_pod_that_cannot_start_is_heard_while_its_job_goes_on() -> None:
    begun = storage(prepare=FILL, phase="Running", jobName="j", observedDigest="d")
    found = step(begun, RUNNING, words="p/prepare: ErrImagePull: not found")
    assert found.verdict.reason is StorageReason.PREPARE_PROGRESSING
    assert found.verdict.message == (
        "Job j fills the volume; its Pod waits: p/prepare: ErrImagePull: not found; "
        "delete this storage and make it with another image, unless the image is to come"
    )


@pytest.mark.parametrize(
    ("prepare", "words"),
    [
        (FILL, "p: 0/2 nodes are available: 2 Insufficient cpu."),
        (FILL, "p/prepare: CreateContainerConfigError: no Secret ErrImagePull"),
        (Prepare(fromStorageName="t"), "p/prepare: ImagePullBackOff: not found"),
    ],
)
def test_another_image_is_named_as_the_way_out_only_where_it_is_one(
    prepare: Prepare, words: str
) -> None:
    begun = storage(prepare=prepare, phase="Running", jobName="j", observedDigest="d")
    message = step(begun, RUNNING, words=words).verdict.message
    assert message == f"Job j fills the volume; its Pod waits: {words}"


def test_a_failure_keeps_its_words_while_nothing_can_be_done() -> None:
    words = Condition(type="Prepared", status="False", message="p: Error: no disk")
    held = failed()
    told = attrs.evolve(held, status=attrs.evolve(held.status, conditions=(words,)))
    found = resting_step(told)
    assert found.status == held.status.prepare
    assert found.verdict.reason is StorageReason.PREPARE_FAILED
    assert found.verdict.message == "p: Error: no disk"


def test_that_a_job_runs_is_recorded_before_it_is_let_go() -> None:
    made = storage(prepare=FILL, phase="Pending", jobName="j", observedDigest="d")
    found = step(made, SUSPENDED)
    assert (found.status.phase, found.makes_job) == ("Running", True)
    again = step(storage(prepare=FILL, phase="Running", jobName="j"), SUSPENDED)
    assert (again.status.phase, again.makes_job) == ("Running", True)
    held = step(made, SUSPENDED, waits="the source went meanwhile")
    assert (held.status.phase, held.makes_job) == ("Pending", False)


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_job_that_comes_late_to_a_run_that_has_ended_is_not_let_go(phase: str) -> None:
    ended = storage(prepare=FILL, phase=phase, jobName="j", observedDigest="d")
    assert not step(ended, SUSPENDED).makes_job


def test_what_has_not_run_waits_for_its_volume() -> None:
    assert resting_step(storage(prepare=FILL)).verdict.message == "waits for the volume"


def test_growth_that_the_cluster_refuses_leaves_the_volume_usable() -> None:
    verdict = volume_verdict(storage(size="20Gi"), claim(), GROWING, refusal="exceeded quota")
    assert (verdict.is_true, verdict.reason) == (True, StorageReason.EXPANSION_REFUSED)
    assert verdict.message == "claim s stays at 10Gi: exceeded quota"
    assert verdict.is_refused


@pytest.mark.parametrize(
    ("type_", "message", "reason", "told"),
    [
        (
            "FileSystemResizePending",
            "wants a Pod",
            StorageReason.VOLUME_READY,
            "claim s holds 10Gi and grows to 20Gi: FileSystemResizePending: wants a Pod",
        ),
        (
            "Resizing",
            "",
            StorageReason.VOLUME_READY,
            "claim s holds 10Gi and grows to 20Gi: Resizing",
        ),
        (
            "ControllerResizeError",
            "disk quota of the project",
            StorageReason.EXPANSION_REFUSED,
            "claim s stays at 10Gi: ControllerResizeError: disk quota of the project",
        ),
        (
            "NodeResizeError",
            "file system is in use",
            StorageReason.EXPANSION_REFUSED,
            "claim s stays at 10Gi: NodeResizeError: file system is in use",
        ),
    ],
)
def test_growth_is_told_in_the_words_of_the_driver(
    type_: str, message: str, reason: StorageReason, told: str
) -> None:
    words = (Condition(type=type_, status="True", message=message),)
    of = claim()
    growing = attrs.evolve(of, status=attrs.evolve(of.status, conditions=words))
    verdict = volume_verdict(storage(size="20Gi"), growing, GROWING)
    assert (verdict.is_true, verdict.reason, verdict.message) == (True, reason, told)
    assert "10Gi" in volume_verdict(storage(), growing, GROWING).message
    over = attrs.evolve(words[0], status="False")
    quiet = attrs.evolve(of, status=attrs.evolve(of.status, conditions=(over,)))
    verdict = volume_verdict(storage(size="20Gi"), quiet, GROWING)
    assert verdict.message == "claim s holds 10Gi and grows to 20Gi"


def test_a_class_that_does_not_exist_is_named() -> None:
    verdict = volume_verdict(storage(), claim("Pending", capacity=""), None)
    assert verdict.reason is StorageReason.VOLUME_PENDING
    assert "there is no class fast" in verdict.message
