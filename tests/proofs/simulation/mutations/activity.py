"""Defects of activity: an active unit that is called idle."""

from typing import Final

from tests.proofs.simulation.mutations.mutation import Mutation

READER: Final = "gpuruntime.reconcilers.activity.reader"
STATUS: Final = "gpuruntime.reconcilers.activity.status"
TESTS: Final = "tests/proofs/activity/test_activity.py"
ACTIVITY: Final = (
    Mutation(
        "a gap of readings counts as idle time",
        STATUS,
        "    gap_ended_at = done.ended_at\n",
        "    gap_ended_at = before.gap_ended_at if before else done.ended_at\n",
        TESTS,
    ),
    Mutation(
        "a terminating gateway Pod is not read",
        READER,
        "serves=pod.status.phase not in _WITHOUT_PROCESS",
        "serves=pod.metadata.deletionTimestamp is None",
        TESTS,
    ),
    Mutation(
        "a replica that does not answer is left out of the round",
        READER,
        'fault=next((each for each in found if isinstance(each, str)), "")',
        'fault=""',
        TESTS,
    ),
    Mutation(
        "the round after one with a silent replica is no gap",
        STATUS,
        "processes = frozenset() if done.fault else frozenset(",
        "processes = frozenset(",
        "tests/rooms/reconcilers/activity/test_status.py",
    ),
    Mutation(
        "another process in the same Pod is taken for the one before",
        STATUS,
        "return (self.pod_uid, self.report.boot, self.report.since)",
        'return (self.pod_uid, "", 0.0)',
        TESTS,
    ),
    Mutation(
        "a new leader knows of no gap",
        STATUS,
        "        gap_ended_at=gap_ended_at,\n",
        "        gap_ended_at=gap_ended_at if before else 0.0,\n",
        TESTS,
    ),
    Mutation(
        "idle times include the time since the last reading",
        STATUS,
        "known_until=done.began_at",
        "known_until=done.ended_at",
        TESTS,
    ),
    Mutation(
        "the replicas' clocks are taken for the leader's",
        STATUS,
        "uid: self.read_at - max(0.0, now - unit.last)",
        "uid: unit.last",
        TESTS,
    ),
)
