"""How long a unit took from stage to stage until it was first ready, for metrics."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from itertools import pairwise
from typing import Final

from gpuruntime.models.kinds.units import Timeline

TOTAL: Final = "total"
# Each stage ends with one moment of the timeline; the first one begins with the acceptance.
STAGES: Final = ("claim", "create", "schedule", "start", "ready")


def stages_of(timeline: Timeline) -> Mapping[str, float]:
    """In seconds, of what is known; a stage whose beginning is not known counts to the next one.

    The moments are of several clocks, and some are of whole seconds: none is told below 0.
    """
    known = [(stage, moment) for stage, moment in _moments(timeline) if moment is not None]
    if not known:
        return {}
    taken = {stage: _seconds(since, until) for (_, since), (stage, until) in pairwise(known)}
    return {**taken, TOTAL: _seconds(known[0][1], known[-1][1])}


def _moments(timeline: Timeline) -> Iterator[tuple[str, datetime | None]]:
    yield "", timeline.acceptedAt
    ends = (
        timeline.claimedAt,
        timeline.createdAt,
        timeline.scheduledAt,
        timeline.startedAt,
        timeline.readyAt,
    )
    yield from zip(STAGES, ends, strict=True)


def _seconds(since: datetime, until: datetime) -> float:
    return max((until - since).total_seconds(), 0.0)
