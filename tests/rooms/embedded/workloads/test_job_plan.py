"""A Job counts every Pod once, respects its limits, and ends with two conditions."""

import random
from datetime import datetime, timedelta
from typing import Any

import attrs
import pytest

from gpuruntime.embedded.controllers.object_patches import wire
from gpuruntime.embedded.kinds.pod_objects import Pod
from gpuruntime.embedded.kinds.workload_objects import Job, UncountedPods
from gpuruntime.embedded.workloads.job_plan import (
    TRACKING_FINALIZER,
    Plan,
    decide,
    final_condition,
    seconds_to_removal,
)
from gpuruntime.models.kubernetes.timestamps import rfc3339
from tests.rooms.embedded.builders import MOMENT, job, pod

HELD = {"finalizers": [TRACKING_FINALIZER]}


def held(name: str, phase: str = "Running", *, at: datetime = MOMENT, **metadata: Any) -> Pod:
    ended = {"terminated": {"finishedAt": rfc3339(at), "exitCode": 1}}
    states = [{"name": "c", "state": ended}] if phase in ("Failed", "Succeeded") else []
    status = {"phase": phase, "containerStatuses": states}
    return pod(name, metadata={**HELD, **metadata}, status=status)


def counted(each: Pod) -> Pod:
    return attrs.evolve(each, metadata=attrs.evolve(each.metadata, finalizers=()))


def after(of: Job, plan: Plan) -> Job:
    return attrs.evolve(of, status=plan.status)


def settled(of: Job, pods: list[Pod], now: datetime = MOMENT) -> Job:
    """Return the Job after counting has settled."""
    for _ in range(5):
        plan = decide(of, pods, now=now)
        of = after(of, plan)
        pods = [counted(each) if each in plan.released else each for each in pods]
    return of


def conditions(of: Job) -> list[tuple[str, str]]:
    return [(each.type, each.reason) for each in of.status.conditions]


def test_a_new_job_starts_its_pods_and_records_the_time() -> None:
    plan = decide(job(completions=3, parallelism=2), [], now=MOMENT)
    assert plan.missing == 2
    assert wire(plan.status) == {
        "startTime": "2025-01-01T00:00:00Z",
        "ready": 0,
        "terminating": 0,
        "uncountedTerminatedPods": {},
    }


def test_an_end_is_recorded_before_the_pod_is_released_and_counted_afterwards() -> None:
    ended = held("a", "Succeeded")
    noted = decide(job(completions=2), [ended], now=MOMENT)
    assert noted.status.uncountedTerminatedPods == UncountedPods(succeeded=("uid-a",))
    assert (noted.status.succeeded, noted.released) == (0, ())

    released = decide(after(job(completions=2), noted), [ended], now=MOMENT)
    assert (released.released, released.status.succeeded) == ((ended,), 0)

    done = decide(after(job(completions=2), noted), [counted(ended)], now=MOMENT)
    assert done.status.uncountedTerminatedPods == UncountedPods()
    assert done.status.succeeded == 1


def test_a_pod_that_vanished_while_being_counted_still_counts() -> None:
    noted = decide(job(completions=2), [held("a", "Succeeded")], now=MOMENT)
    assert decide(after(job(completions=2), noted), [], now=MOMENT).status.succeeded == 1


def test_success_is_first_a_criterion_met_and_then_complete() -> None:
    first = after(job(), decide(job(), [held("a", "Succeeded")], now=MOMENT))
    assert conditions(first) == [("SuccessCriteriaMet", "CompletionsReached")]

    last = settled(job(), [held("a", "Succeeded")])
    assert conditions(last) == [
        ("SuccessCriteriaMet", "CompletionsReached"),
        ("Complete", "CompletionsReached"),
    ]
    assert (last.status.succeeded, last.status.completionTime) == (1, MOMENT)


def test_failures_beyond_the_limit_fail_the_job_with_its_reason() -> None:
    failures = [held("a", "Failed"), held("b", "Failed")]
    last = settled(job(backoffLimit=1), failures)
    assert conditions(last) == [
        ("FailureTarget", "BackoffLimitExceeded"),
        ("Failed", "BackoffLimitExceeded"),
    ]
    assert (last.status.failed, last.status.completionTime) == (2, None)
    assert final_condition(last) is not None


@pytest.mark.parametrize(("failures", "seconds"), [(1, 10.0), (2, 20.0), (3, 40.0)])
def test_every_failure_doubles_the_wait_for_the_next_pod(failures: int, seconds: float) -> None:
    pods = [held(f"p{number}", "Failed") for number in range(failures)]
    waiting = decide(settled(job(), pods), pods, now=MOMENT)
    assert (waiting.missing, waiting.again_in_seconds) == (0, seconds)
    later = MOMENT + timedelta(seconds=seconds)
    assert decide(settled(job(), pods), pods, now=later).missing == 1


def test_a_success_resets_the_back_off() -> None:
    pods = [
        held("a", "Failed"),
        held("b", "Succeeded", at=MOMENT + timedelta(seconds=1)),
    ]
    assert decide(job(completions=2), pods, now=MOMENT + timedelta(seconds=1)).missing == 1


def test_restarts_in_place_count_against_the_limit() -> None:
    restarted = pod(
        "a",
        metadata=HELD,
        restartPolicy="OnFailure",
        status={"phase": "Running", "containerStatuses": [{"name": "c", "restartCount": 2}]},
    )
    plan = decide(job(backoffLimit=2), [restarted], now=MOMENT)
    assert plan.removed == (restarted,)
    assert plan.status.conditions[0].reason == "BackoffLimitExceeded"
    assert decide(job(backoffLimit=3), [restarted], now=MOMENT).removed == ()


def test_a_job_past_its_deadline_deletes_its_pods_and_fails_when_they_are_gone() -> None:
    late = job(activeDeadlineSeconds=4, status={"startTime": "2025-01-01T00:00:00Z"})
    running = held("a")
    assert decide(late, [running], now=MOMENT).again_in_seconds == 4.0

    now = MOMENT + timedelta(seconds=4)
    plan = decide(late, [running], now=now)
    assert plan.removed == (running,)
    ending = held("a", deletionTimestamp="2025-01-01T00:00:34Z", deletionGracePeriodSeconds=30)
    waiting = settled(after(late, plan), [ending], now)
    assert conditions(waiting) == [("FailureTarget", "DeadlineExceeded")]
    assert (waiting.status.failed, waiting.status.terminating) == (1, 1)
    assert conditions(settled(waiting, [], now))[-1] == ("Failed", "DeadlineExceeded")


def test_a_finished_job_changes_no_more_but_releases_held_pods() -> None:
    done = settled(job(), [held("a", "Succeeded")])
    straggler = held("b", "Failed")
    plan = decide(done, [straggler], now=MOMENT + timedelta(hours=1))
    assert (plan.status, plan.missing, plan.removed) == (done.status, 0, ())
    assert plan.released == (straggler,)


def test_a_suspended_job_deletes_its_pods_and_starts_again_when_it_resumes() -> None:
    running, suspended = held("a"), job(suspend=True)
    plan = decide(suspended, [running], now=MOMENT)
    assert (plan.missing, plan.removed) == (0, (running,))
    assert plan.status.startTime is None
    assert conditions(after(suspended, plan)) == [("Suspended", "JobSuspended")]

    resumed = decide(attrs.evolve(job(), status=plan.status), [], now=MOMENT)
    assert (resumed.missing, resumed.status.startTime) == (1, MOMENT)
    (condition,) = resumed.status.conditions
    assert (condition.status, condition.reason) == ("False", "JobResumed")


def test_without_completions_one_success_is_enough_once_no_pod_runs() -> None:
    pool = job(completions=None, parallelism=2)
    assert decide(pool, [], now=MOMENT).missing == 2
    finished, running = held("a", "Succeeded"), held("b")
    waiting = decide(pool, [finished, running], now=MOMENT)
    assert (waiting.missing, waiting.status.conditions) == (0, ())
    last = settled(pool, [finished, held("b", "Failed")])
    assert conditions(last)[-1][0] == "Complete"


def test_a_terminating_pod_counts_as_failed_from_its_deletion_on() -> None:
    deletion: dict[str, Any] = {
        "deletionTimestamp": "2025-01-01T00:00:30Z",
        "deletionGracePeriodSeconds": 30,
    }
    ending = held("a", **deletion)
    assert decide(job(), [ending], now=MOMENT).again_in_seconds == 10.0


def test_a_terminating_job_starts_no_pods() -> None:
    ending = job(metadata={"deletionTimestamp": "2025-01-01T00:00:00Z"})
    assert decide(ending, [], now=MOMENT).missing == 0


def test_a_finished_job_is_removed_after_its_time_to_live() -> None:
    done = settled(job(ttlSecondsAfterFinished=30), [held("a", "Succeeded")])
    assert seconds_to_removal(done, now=MOMENT + timedelta(seconds=10)) == 20.0
    assert seconds_to_removal(done, now=MOMENT + timedelta(seconds=40)) == 0.0
    assert seconds_to_removal(settled(job(), [held("a", "Succeeded")]), now=MOMENT) is None


def test_each_end_is_counted_once_even_if_steps_are_lost(rng: random.Random) -> None:
    for _ in range(200):
        work = job(completions=3, parallelism=3, backoffLimit=9)
        pods = [held("a", "Succeeded"), held("b", "Failed"), held("c", "Succeeded")]
        for _ in range(40):
            plan = decide(work, pods, now=MOMENT)
            if rng.random() < 0.5:
                continue
            work = after(work, plan)
            for each in plan.released:
                if rng.random() < 0.5:
                    pods.remove(each)
                    pods += [counted(each)] if rng.random() < 0.5 else []
        assert (work.status.succeeded, work.status.failed) == (2, 1)
