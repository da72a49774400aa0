"""The pure functions that check a snapshot against all invariants.

Between any two writes of a protocol, correct operation may show a finding, but not for longer than
the finding itself allows. The observer measures how long it has seen it. So `breaches` is empty
unless something is wrong.
"""

from collections.abc import Iterator

from gpuruntime.audit.breach import Breach, Suspicion
from gpuruntime.audit.index import SnapshotIndex
from gpuruntime.audit.rules import RULES
from gpuruntime.audit.snapshot import Snapshot


def breaches(snapshot: Snapshot) -> list[Breach]:
    """Return the findings that the snapshot's observer has seen for longer than they allow."""
    return [
        each.breach
        for each in suspicions(snapshot)
        if each.is_breach_at(snapshot.ages.get(each.identity, 0.0))
    ]


def suspicions(snapshot: Snapshot) -> list[Suspicion]:
    return [each for each in steps(snapshot) if each is not None]


def steps(snapshot: Snapshot) -> Iterator[Suspicion | None]:
    """Yield the suspicions in small steps; a step that found nothing yields None."""
    index = SnapshotIndex(snapshot=snapshot)
    for _ in index.gather():
        yield None
    for rule in RULES:
        if not rule.is_judged(snapshot):
            continue
        for subject in rule.subjects(index):
            yield None
            for finding in rule.findings(subject, index):
                yield Suspicion(rule=rule.name, finding=finding)
