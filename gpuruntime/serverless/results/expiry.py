"""What is due with an invocation's record, as a pure function of it: the sweeper's only rule."""

from datetime import datetime
from typing import Final, TypeAlias

import attrs

from gpuruntime.bus.messages import Record, expired

# Whatever a record says of its deadline, somebody looks at it again within a day.
LONGEST_WAIT_SECONDS: Final = 86_400.0


@attrs.frozen(slots=True)
class Keep:
    """It has ended: into the store with it."""


@attrs.frozen(slots=True)
class Wait:
    seconds: float


@attrs.frozen(slots=True)
class Expire:
    """Its time is over: this record goes over the one that was seen."""

    record: Record


Due: TypeAlias = Keep | Wait | Expire


def due(record: Record, *, now: datetime, grace_seconds: float) -> Due:
    """The grace is for the worker, who writes the same end at the deadline and knows more."""
    if record.state.is_terminal:
        return Keep()
    left = (record.deadlineAt - now).total_seconds() + grace_seconds
    if left > 0:
        return Wait(min(left, LONGEST_WAIT_SECONDS))
    return Expire(expired(record, now))
