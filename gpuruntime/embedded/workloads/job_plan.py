"""Pure decisions about a Job's Pods; every ended Pod is counted exactly once.

A Pod carries a finalizer until its end is counted. First its uid is written to the Job's status,
then the finalizer is removed, and only then does the number replace the uid. If a write is lost,
the Pod is neither forgotten nor counted twice.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final

import attrs

from gpuruntime.embedded.kinds.pod_objects import Pod
from gpuruntime.embedded.kinds.workload_objects import (
    Conditions,
    Job,
    JobStatus,
    UncountedPods,
    WorkloadCondition,
    find_condition,
)

TRACKING_FINALIZER: Final = "batch.kubernetes.io/job-tracking"
COMPLETE: Final = "Complete"
FAILED: Final = "Failed"
FAILURE_TARGET: Final = "FailureTarget"
SUCCESS_CRITERIA_MET: Final = "SuccessCriteriaMet"

FIRST_BACKOFF_SECONDS: Final = 10.0
LONGEST_BACKOFF_SECONDS: Final = 600.0

BACKOFF_LIMIT_EXCEEDED: Final = (
    "BackoffLimitExceeded",
    "Job has reached the specified backoff limit",
)
DEADLINE_EXCEEDED: Final = (
    "DeadlineExceeded",
    "Job was active longer than specified deadline",
)
SUSPENDED: Final = "Suspended"
JOB_SUSPENDED: Final = ("JobSuspended", "Job suspended")
JOB_RESUMED: Final = ("JobResumed", "Job resumed")
COMPLETIONS_REACHED: Final = ("CompletionsReached", "Reached expected number of succeeded pods")


@attrs.frozen(kw_only=True, slots=True)
class Plan:
    """A step; write the status first, then release Pods, then delete or create them."""

    status: JobStatus
    released: tuple[Pod, ...] = ()
    removed: tuple[Pod, ...] = ()
    missing: int = 0
    # The seconds after which to decide again without an event.
    again_in_seconds: float | None = None


def decide(job: Job, pods: Iterable[Pod], *, now: datetime) -> Plan:
    count = _Count.of(job, tuple(pods))
    if final_condition(job) is not None:
        return Plan(status=job.status, released=tuple(filter(is_held, count.pods)))
    released = count.released
    target = _target(job, count, now)
    status = _status(job, count, target, now)
    if target is not None:
        return Plan(status=status, released=released, removed=count.active)
    wanted = _wanted(job, count)
    surplus = len(count.active) - wanted
    if surplus > 0:
        return Plan(status=status, released=released, removed=count.active[-surplus:])
    wait = _backoff_seconds(count.pods, now) if surplus else 0.0
    is_ending = job.metadata.deletionTimestamp is not None
    return Plan(
        status=status,
        released=released,
        missing=-surplus if not wait and not is_ending else 0,
        again_in_seconds=_earliest(wait or None, _seconds_to_deadline(job, now)),
    )


def final_condition(job: Job) -> WorkloadCondition | None:
    return next(
        (
            each
            for each in job.status.conditions
            if each.type in (COMPLETE, FAILED) and each.is_true
        ),
        None,
    )


def seconds_to_removal(job: Job, *, now: datetime) -> float | None:
    """Return the seconds until the Job is deleted, or None if it is unfinished or kept."""
    final, kept = final_condition(job), job.spec.ttlSecondsAfterFinished
    if final is None or final.lastTransitionTime is None or kept is None:
        return None
    return max(0.0, (final.lastTransitionTime + timedelta(seconds=kept) - now).total_seconds())


def is_held(pod: Pod) -> bool:
    """Return whether the Pod still waits to be counted."""
    return TRACKING_FINALIZER in pod.metadata.finalizers


@attrs.frozen(kw_only=True, slots=True)
class _Count:
    """The Pods of a Job by what has become of them."""

    pods: tuple[Pod, ...]
    active: tuple[Pod, ...]
    terminating: int
    released: tuple[Pod, ...]
    uncounted: UncountedPods
    # The numbers that the status may show.
    succeeded: int
    failed: int

    @property
    def all_succeeded(self) -> int:
        return self.succeeded + len(self.uncounted.succeeded)

    @property
    def all_failed(self) -> int:
        return self.failed + len(self.uncounted.failed)

    @classmethod
    def of(cls, job: Job, pods: tuple[Pod, ...]) -> "_Count":
        known = job.status.uncountedTerminatedPods or UncountedPods()
        held = {pod.metadata.uid: pod for pod in pods if is_held(pod)}
        succeeded = tuple(uid for uid in known.succeeded if uid in held)
        failed = tuple(uid for uid in known.failed if uid in held)
        new = [pod for uid, pod in held.items() if uid not in (*known.succeeded, *known.failed)]
        return cls(
            pods=pods,
            active=tuple(pod for pod in pods if not _has_ended(pod)),
            terminating=sum(pod.is_ending and not pod.is_finished for pod in pods),
            released=tuple(held[uid] for uid in (*succeeded, *failed)),
            uncounted=UncountedPods(
                succeeded=(*succeeded, *(pod.metadata.uid for pod in new if _succeeded(pod))),
                failed=(*failed, *(pod.metadata.uid for pod in new if _failed(pod))),
            ),
            succeeded=job.status.succeeded + len(known.succeeded) - len(succeeded),
            failed=job.status.failed + len(known.failed) - len(failed),
        )


def _succeeded(pod: Pod) -> bool:
    return pod.status.phase == "Succeeded"


def _failed(pod: Pod) -> bool:
    """Return whether the Pod failed; a terminating one does no more work and counts at once."""
    return pod.status.phase == "Failed" or (pod.is_ending and not _succeeded(pod))


def _has_ended(pod: Pod) -> bool:
    return _succeeded(pod) or _failed(pod)


def _target(job: Job, count: _Count, now: datetime) -> WorkloadCondition | None:
    """Return the Job's decided outcome, or None; once decided it never changes."""
    for type_ in (FAILURE_TARGET, SUCCESS_CRITERIA_MET):
        decided = find_condition(job.status.conditions, type_)
        if decided is not None and decided.is_true:
            return decided
    limit = job.spec.backoffLimit
    if count.all_failed > limit or _restarted_too_often(count.active, limit):
        return _condition(FAILURE_TARGET, BACKOFF_LIMIT_EXCEEDED, now)
    if _seconds_to_deadline(job, now) == 0:
        return _condition(FAILURE_TARGET, DEADLINE_EXCEEDED, now)
    if _is_complete(job, count):
        return _condition(SUCCESS_CRITERIA_MET, COMPLETIONS_REACHED, now)
    return None


def _restarted_too_often(active: tuple[Pod, ...], limit: int) -> bool:
    restarts = sum(pod.restarts for pod in active if pod.spec.restartPolicy == "OnFailure")
    return restarts > 0 and restarts >= limit


def _is_complete(job: Job, count: _Count) -> bool:
    if job.spec.completions is None:
        return count.all_succeeded > 0 and not count.active
    return count.all_succeeded >= job.spec.completions and not job.spec.suspend


def _status(job: Job, count: _Count, target: WorkloadCondition | None, now: datetime) -> JobStatus:
    """Return the status; the final condition comes once no Pod runs and every end is a number."""
    conditions, completed_at = _suspension(job, now), job.status.completionTime
    if target is not None:
        conditions = _with(conditions, target)
        is_over = not count.active and not count.terminating
        if is_over and count.uncounted == UncountedPods():
            is_success = target.type == SUCCESS_CRITERIA_MET
            reason = (target.reason, target.message)
            conditions = _with(
                conditions, _condition(COMPLETE if is_success else FAILED, reason, now)
            )
            completed_at = now if is_success else None
    return JobStatus(
        conditions=conditions,
        startTime=None if job.spec.suspend else job.status.startTime or now,
        completionTime=completed_at,
        active=len(count.active),
        ready=sum(pod.is_ready for pod in count.active),
        terminating=count.terminating,
        succeeded=count.succeeded,
        failed=count.failed,
        uncountedTerminatedPods=count.uncounted,
    )


def _suspension(job: Job, now: datetime) -> Conditions:
    """Return the conditions; a Job that was never suspended has no such condition."""
    conditions = job.status.conditions
    before = find_condition(conditions, SUSPENDED)
    is_suspended = before is not None and before.is_true
    if is_suspended == job.spec.suspend:
        return conditions
    reason = JOB_SUSPENDED if job.spec.suspend else JOB_RESUMED
    changed = _condition(SUSPENDED, reason, now, is_true=job.spec.suspend)
    return (*(each for each in conditions if each is not before), changed)


def _with(conditions: Conditions, condition: WorkloadCondition) -> Conditions:
    return conditions if condition in conditions else (*conditions, condition)


def _condition(
    type_: str, reason: tuple[str, str], now: datetime, *, is_true: bool = True
) -> WorkloadCondition:
    return WorkloadCondition(
        type=type_,
        status="True" if is_true else "False",
        lastProbeTime=now,
        lastTransitionTime=now,
        reason=reason[0],
        message=reason[1],
    )


def _wanted(job: Job, count: _Count) -> int:
    if job.spec.suspend:
        return 0
    if job.spec.completions is None:
        return len(count.active) if count.all_succeeded else job.spec.parallelism
    return min(job.spec.completions - count.all_succeeded, job.spec.parallelism)


def _backoff_seconds(pods: tuple[Pod, ...], now: datetime) -> float:
    """Return the seconds of back-off: ten after a first failure, doubled with each further one."""
    ended = sorted(
        ((_ended_at(pod, now), _failed(pod)) for pod in pods if _has_ended(pod)), reverse=True
    )
    failures = next((index for index, (_, failed) in enumerate(ended) if not failed), len(ended))
    if not failures:
        return 0.0
    delay = min(FIRST_BACKOFF_SECONDS * 2.0 ** min(failures - 1, 10), LONGEST_BACKOFF_SECONDS)
    return max(0.0, (ended[0][0] + timedelta(seconds=delay) - now).total_seconds())


def _ended_at(pod: Pod, now: datetime) -> datetime:
    states = (each.state.terminated for each in pod.status.containerStatuses)
    moments = [each.finishedAt for each in states if each and each.finishedAt]
    return max(moments, default=_asked_to_end_at(pod) or pod.metadata.creationTimestamp or now)


def _asked_to_end_at(pod: Pod) -> datetime | None:
    due_at, grace = pod.metadata.deletionTimestamp, pod.metadata.deletionGracePeriodSeconds
    return due_at - timedelta(seconds=grace or 0) if due_at else None


def _seconds_to_deadline(job: Job, now: datetime) -> float | None:
    started_at, seconds = job.status.startTime, job.spec.activeDeadlineSeconds
    if started_at is None or seconds is None or job.spec.suspend:
        return None
    return max(0.0, (started_at + timedelta(seconds=seconds) - now).total_seconds())


def _earliest(*seconds: float | None) -> float | None:
    return min((each for each in seconds if each is not None), default=None)
