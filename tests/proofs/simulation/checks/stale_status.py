"""Comparison of each status as written with the status that a fresh look at the object writes."""

from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

from gpuruntime.models.encoding import codec
from gpuruntime.models.encoding.json import JsonObject
from gpuruntime.models.kubernetes.metadata import Key
from tests.proofs.simulation.checks.continuous_audit import OWN_KINDS, ContinuousAudit

# By kind, key and uid.
Statuses: TypeAlias = Mapping[tuple[str, Key, str], JsonObject]


def statuses_of(held: ContinuousAudit) -> Statuses:
    """Return the status of every object of our kinds."""
    objects: list[tuple[str, Any]] = [
        (kind, each) for kind in OWN_KINDS for each in held.held(kind)
    ]
    return {
        (kind, each.metadata.key, each.metadata.uid): codec.to_json(each.status)
        for kind, each in objects
    }


def stale_statuses(written: Statuses, fresh: Statuses) -> Iterator[str]:
    """Yield what was written at rest and differs from what a new leader writes."""
    for (kind, key, uid), status in sorted(written.items()):
        now = fresh.get((kind, key, uid), status)
        for member in sorted(status.keys() | now.keys()):
            before, after = status.get(member), now.get(member)
            if before != after:
                yield f"{kind} {key} is stale: {member} {before} at rest, {after} by a fresh look"
