"""Decides what to do with a record: the only rule of the results role, a pure function."""

from datetime import datetime
from typing import Final, TypeAlias

import attrs

from gpuruntime.bus.messages import Record, expired

# Whatever deadline a record has, it is checked again within a day.
LONGEST_WAIT_SECONDS: Final = 86_400.0


@attrs.frozen(slots=True)
class Keep:
    """The invocation has ended: keep its record in the store."""


@attrs.frozen(slots=True)
class Wait:
    seconds: float


@attrs.frozen(slots=True)
class Expire:
    """The deadline has passed: write this record over the one that was read."""

    record: Record


Due: TypeAlias = Keep | Wait | Expire


def due(record: Record, *, now: datetime, grace_seconds: float) -> Due:
    """Return what is due; the grace lets the worker write its more precise end first."""
    if record.state.is_terminal:
        return Keep()
    left = (record.deadlineAt - now).total_seconds() + grace_seconds
    if left > 0:
        return Wait(min(left, LONGEST_WAIT_SECONDS))
    return Expire(expired(record, now))
