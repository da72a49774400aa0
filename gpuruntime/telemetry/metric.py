"""What a metric is: its name and kind, what it says, and what keeps its labels few."""

from collections.abc import Iterator, Mapping
from enum import StrEnum
from itertools import product
from typing import Final

import attrs

PREFIX: Final = "gpuruntime_"
# For what may take as long as a slow image pull, or a user's program.
UP_TO_HOURS: Final = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1200, 2400, 3600, 7200)


class Kind(StrEnum):
    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class RoleName(StrEnum):
    MANAGER = "manager"
    API = "api"
    ACTIVATOR = "activator"
    RESULTS = "results"
    WORKER = "worker"


@attrs.frozen(slots=True)
class Label:
    """Its values are known, for all roles or for each, or something bounds them.

    `bound` says by what, or tells many values in few words.
    """

    name: str
    values: tuple[str, ...] = ()
    bound: str = ""
    by_role: Mapping[RoleName, tuple[str, ...]] = attrs.field(factory=dict)

    def values_in(self, role: RoleName) -> tuple[str, ...]:
        """Empty where nobody can know them beforehand."""
        return self.by_role.get(role, self.values)

    @property
    def known(self) -> frozenset[str]:
        """In any role."""
        return frozenset(self.values).union(*self.by_role.values())


@attrs.frozen(kw_only=True, slots=True)
class Metric:
    """`name` is what rooms count by; `roles` are those that tell of it.

    One that is not told from the start is told only where there is something to say: where a
    part is configured, or while this process leads.
    """

    name: str
    kind: Kind
    help: str
    roles: tuple[RoleName, ...]
    labels: tuple[Label, ...] = ()
    buckets: tuple[float, ...] = ()
    is_told_from_start: bool = True

    @property
    def full_name(self) -> str:
        return PREFIX + self.name

    def series_at_start(self, role: RoleName) -> Iterator[dict[str, str]]:
        """The labels of each series that is there before anything happens: `rate()` and alerts
        miss the first of what begins with it. A histogram is many lines for each of its series.
        """
        is_heavy = self.kind is Kind.HISTOGRAM and bool(self.labels)
        if role not in self.roles or not self.is_told_from_start or is_heavy:
            return
        names = [label.name for label in self.labels]
        for values in product(*(label.values_in(role) for label in self.labels)):
            yield dict(zip(names, values, strict=True))
