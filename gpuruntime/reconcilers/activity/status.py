"""How long units have been idle, as a pure function of rounds of readings.

Nothing is known about a gap: a replica that does not answer or is gone, another process, a new
replica, or the first round of a leader. So a gap counts as activity of all units until its end,
and a rollout of the gateway makes no unit look idle.
"""

from collections.abc import Collection, Mapping
from math import inf

import attrs

from gpuruntime.models.kinds.activity import ActivityReport


@attrs.frozen(kw_only=True, slots=True)
class Reading:
    """The report of one replica; `read_at` is the reader's clock when it had arrived."""

    pod_uid: str
    report: ActivityReport
    read_at: float

    @property
    def process(self) -> tuple[str, str, float]:
        """Return what stays the same while the process has lost no record."""
        return (self.pod_uid, self.report.boot, self.report.since)

    def last_active(self) -> Mapping[str, float]:
        """Return the latest time by the reader's clock at which each unit may have been active."""
        now = self.report.now
        return {
            uid: self.read_at - max(0.0, now - unit.last)
            for uid, unit in self.report.units.items()
        }


@attrs.frozen(kw_only=True, slots=True)
class Round:
    """A round of readings; `fault` says why replicas were not listed or one was not read."""

    began_at: float
    ended_at: float
    readings: tuple[Reading, ...]
    fault: str = ""


@attrs.frozen(kw_only=True, slots=True)
class Activity:
    """The knowledge after a round, in seconds of the reader's clock."""

    known_until: float
    gap_ended_at: float
    processes: frozenset[tuple[str, str, float]]
    last_active: Mapping[str, float]

    @property
    def known_seconds(self) -> float:
        return max(0.0, self.known_until - self.gap_ended_at)

    def idle_seconds(self, uid: str) -> float:
        """Return for how long the unit is known to be idle, as of the last round."""
        last = max(self.gap_ended_at, self.last_active.get(uid, -inf))
        return max(0.0, self.known_until - last)


def after_round(before: Activity | None, done: Round, living: Collection[str]) -> Activity:
    """Return what is known after the round, of the units with the living uids.

    Without any replica the round is a gap, too: then the gateway is not one of ours.
    """
    # After a fault the next round is a gap too: a replica may have come back and gone meanwhile.
    processes = frozenset() if done.fault else frozenset(each.process for each in done.readings)
    gap_ended_at = done.ended_at
    last_active: dict[str, float] = {}
    if before is not None:
        if processes and processes == before.processes:
            gap_ended_at = before.gap_ended_at
        last_active |= {uid: at for uid, at in before.last_active.items() if uid in living}
    for reading in done.readings:
        for uid, moment in reading.last_active().items():
            if uid in living:
                last_active[uid] = max(moment, last_active.get(uid, -inf))
    return Activity(
        known_until=done.began_at,
        gap_ended_at=gap_ended_at,
        processes=processes,
        last_active=last_active,
    )
