"""A condition reports whether something is true of an object, since when, and why."""

from collections.abc import Iterable
from datetime import datetime

import attrs


@attrs.frozen(kw_only=True, slots=True)
class Condition:
    """lastTransitionTime is the time of the last change of `status`, not of the reason."""

    type: str
    status: str = "Unknown"
    reason: str = ""
    message: str = ""
    observedGeneration: int = 0
    lastTransitionTime: datetime | None = None

    @property
    def is_true(self) -> bool:
        return self.status == "True"


def condition_of(conditions: Iterable[Condition], type_: str) -> Condition | None:
    for each in conditions:
        if each.type == type_:
            return each
    return None


def with_condition(
    conditions: Iterable[Condition], condition: Condition, *, now: datetime
) -> tuple[Condition, ...]:
    """Return the conditions with this one in the place of its type, or at the end."""
    before = tuple(conditions)
    previous = condition_of(before, condition.type)
    if previous is None:
        return (*before, attrs.evolve(condition, lastTransitionTime=now))
    keeps = previous.status == condition.status and previous.lastTransitionTime is not None
    moment = previous.lastTransitionTime if keeps else now
    set_now = attrs.evolve(condition, lastTransitionTime=moment)
    return tuple(set_now if each is previous else each for each in before)
