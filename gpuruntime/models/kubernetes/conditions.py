"""Conditions: what is true of an object, since when, and why."""

from collections.abc import Iterable
from datetime import datetime

import attrs


@attrs.frozen(kw_only=True, slots=True)
class Condition:
    """lastTransitionTime is when `status` became what it is, whatever the reason did since."""

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
    """The condition in the place of the one of its type, or last; the others as they are."""
    before = tuple(conditions)
    previous = condition_of(before, condition.type)
    if previous is None:
        return (*before, attrs.evolve(condition, lastTransitionTime=now))
    keeps = previous.status == condition.status and previous.lastTransitionTime is not None
    moment = previous.lastTransitionTime if keeps else now
    set_now = attrs.evolve(condition, lastTransitionTime=moment)
    return tuple(set_now if each is previous else each for each in before)
