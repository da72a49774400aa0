"""Decisions about the prepare of a storage."""

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
    Job,
    JobSpec,
    JobStatus,
)
from gpuruntime.reconcilers.storage.prepare_plan import (
    prepare_step,
    resting_step,
    source_missing,
)

FILL = Prepare(fromImage="busybox:1.36", command=("fill",))
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
    nonce: str = "",
    **record: Any,
) -> GPUStorage:
    annotations = {RECOVER: nonce} if nonce else {}
    return GPUStorage(
        metadata=ObjectMeta(name="s", uid="1", annotations=annotations),
        spec=GPUStorageSpec(size="10Gi", prepare=prepare),
        status=GPUStorageStatus(prepare=PrepareStatus(**record)),
    )


def step(of: GPUStorage, job: Job | None = None, *, waits: str = "", words: str = "") -> Any:
    return prepare_step(of, job, waits=source_missing(waits) if waits else None, words=words)


def test_a_storage_without_a_prepare_is_prepared() -> None:
    found = step(storage())
    assert found.verdict.is_true
    assert not found.makes_job


def test_a_run_is_recorded_before_its_job_is_created() -> None:
    found = step(storage(prepare=FILL))
    assert found.makes_job
    assert (found.status.phase, found.status.recoveryPhase) == ("Pending", "")
    assert found.status.observedDigest == prepare_digest(storage(prepare=FILL))
    assert found.status.jobName == f"storage-prepare-s-{found.status.observedDigest}"


def test_a_recorded_run_without_a_job_gets_one() -> None:
    begun = storage(prepare=FILL, phase="Pending", jobName="j", observedDigest="d")
    assert step(begun).makes_job


def test_a_job_that_is_deleted_before_its_end_fails_the_prepare() -> None:
    running = storage(prepare=FILL, phase="Running", jobName="j", observedDigest="d")
    found = step(running)
    assert not found.makes_job
    assert (found.status.phase, found.verdict.reason) == ("Failed", StorageReason.PREPARE_FAILED)
    assert "Job j was removed before it ended" in found.verdict.message


@pytest.mark.parametrize(
    ("job", "phase"),
    [(RUNNING, "Running"), (DONE, "Succeeded"), (BROKEN, "Failed")],
    ids=["running", "succeeded", "failed"],
)
def test_the_record_follows_the_job(job: Job, phase: str) -> None:
    begun = storage(prepare=FILL, phase="Pending", jobName="j", observedDigest="d")
    found = step(begun, job)
    assert found.status.phase == phase
    assert found.verdict.is_true is (phase == "Succeeded")
    assert not found.makes_job


def test_a_failure_is_reported_with_the_pods_message() -> None:
    begun = storage(prepare=FILL, phase="Running", jobName="j", observedDigest="d")
    assert step(begun, BROKEN, words="p/prepare: Error: exit code 3: no disk").verdict.message == (
        "p/prepare: Error: exit code 3: no disk; mend what it needs and ask to recover"
    )
    assert step(begun, BROKEN).verdict.message.startswith("BackoffLimitExceeded: m")


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_an_ended_run_stays_ended_without_its_job(phase: str) -> None:
    ended = storage(prepare=FILL, phase=phase, jobName="j", observedDigest="d")
    for job in (None, DONE, BROKEN):
        found = step(ended, job)
        assert found.status == ended.status.prepare
        assert not found.makes_job


def failed(**more: Any) -> GPUStorage:
    first = storage(prepare=FILL)
    digest = prepare_digest(first)
    return storage(prepare=FILL, phase="Failed", jobName="j", observedDigest=digest, **more)


def test_a_failed_prepare_runs_again_on_request() -> None:
    assert not step(failed()).makes_job
    found = step(failed(nonce="a"))
    assert found.makes_job
    assert (found.status.phase, found.status.recoveryPhase) == ("Pending", "Pending")
    assert found.status.observedDigest != failed().status.prepare.observedDigest


def test_a_failed_recovery_needs_a_new_request() -> None:
    digest = prepare_digest(failed(nonce="a"))
    again = storage(
        prepare=FILL, nonce="a", phase="Failed", observedDigest=digest, recoveryPhase="Failed"
    )
    assert not step(again).makes_job
    asked = attrs.evolve(again, metadata=attrs.evolve(again.metadata, annotations={RECOVER: "b"}))
    assert step(asked).makes_job


def test_a_changed_prepare_does_not_run_by_itself() -> None:
    """It runs neither after a failure nor over the result of a successful run."""
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


def test_a_copy_that_waits_for_its_source_says_so() -> None:
    found = step(storage(prepare=Prepare(fromStorageName="t")), waits="storage t is not ready")
    assert not found.makes_job
    assert found.verdict.reason is StorageReason.SOURCE_NOT_READY
    assert found.verdict.message == "storage t is not ready"


def test_a_recorded_run_waits_if_its_source_is_deleted() -> None:
    begun = storage(prepare=Prepare(fromStorageName="t"), phase="Pending", jobName="j")
    found = step(begun, waits="storage t is being deleted")
    assert not found.makes_job
    assert found.status == begun.status.prepare
    assert found.verdict.reason is StorageReason.SOURCE_NOT_READY


def test_a_pod_that_cannot_start_is_reported_while_its_job_goes_on() -> None:
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
    ids=["unschedulable Pod", "message that mentions an image error", "image of a copy"],
)
def test_another_image_is_the_remedy_only_for_an_image_that_cannot_be_pulled(
    prepare: Prepare, words: str
) -> None:
    begun = storage(prepare=prepare, phase="Running", jobName="j", observedDigest="d")
    message = step(begun, RUNNING, words=words).verdict.message
    assert message == f"Job j fills the volume; its Pod waits: {words}"


def test_a_failure_keeps_its_message_while_nothing_can_be_done() -> None:
    words = Condition(type="Prepared", status="False", message="p: Error: no disk")
    held = failed()
    told = attrs.evolve(held, status=attrs.evolve(held.status, conditions=(words,)))
    found = resting_step(told)
    assert found.status == held.status.prepare
    assert found.verdict.reason is StorageReason.PREPARE_FAILED
    assert found.verdict.message == "p: Error: no disk"


def test_a_run_is_recorded_as_running_before_its_job_is_unsuspended() -> None:
    made = storage(prepare=FILL, phase="Pending", jobName="j", observedDigest="d")
    found = step(made, SUSPENDED)
    assert (found.status.phase, found.makes_job) == ("Running", True)
    again = step(storage(prepare=FILL, phase="Running", jobName="j"), SUSPENDED)
    assert (again.status.phase, again.makes_job) == ("Running", True)
    held = step(made, SUSPENDED, waits="the source went meanwhile")
    assert (held.status.phase, held.makes_job) == ("Pending", False)


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_late_job_of_an_ended_run_stays_suspended(phase: str) -> None:
    ended = storage(prepare=FILL, phase=phase, jobName="j", observedDigest="d")
    assert not step(ended, SUSPENDED).makes_job


def test_a_prepare_waits_for_its_volume() -> None:
    assert resting_step(storage(prepare=FILL)).verdict.message == "waits for the volume"
