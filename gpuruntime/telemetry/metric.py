"""The description of a metric: name, kind, help, and the bounds of its labels."""

from collections.abc import Iterator, Mapping
from enum import StrEnum
from itertools import product
from typing import Final

import attrs

PREFIX: Final = "gpuruntime_"
# Buckets for work that may take as long as a slow image pull or a user's program.
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
    GATEWAY = "gateway"


@attrs.frozen(slots=True)
class Label:
    """A label whose values are known, for all roles or for each of them, or are bounded.

    `bound` names what bounds the values, or summarises many values.
    """

    name: str
    values: tuple[str, ...] = ()
    bound: str = ""
    by_role: Mapping[RoleName, tuple[str, ...]] = attrs.field(factory=dict)

    def values_in(self, role: RoleName) -> tuple[str, ...]:
        """Return the values in this role; none if they are not known beforehand."""
        return self.by_role.get(role, self.values)

    @property
    def known(self) -> frozenset[str]:
        """Return the known values of all roles."""
        return frozenset(self.values).union(*self.by_role.values())


@attrs.frozen(slots=True)
class Metric:
    """A row of the catalogue. Rooms count by its `name`, and its `roles` report it.

    A metric that is not reported from the start appears only when there is something to report: if
    a part is configured, or while this process leads.
    """

    kind: Kind
    name: str
    roles: tuple[RoleName, ...]
    labels: tuple[Label, ...]
    help: str
    buckets: tuple[float, ...] = attrs.field(default=(), kw_only=True)
    is_reported_from_start: bool = attrs.field(default=True, kw_only=True)

    @property
    def full_name(self) -> str:
        return PREFIX + self.name

    def series_at_start(self, role: RoleName) -> Iterator[dict[str, str]]:
        """Yield the labels of each series that exists from the start.

        `rate()` and alerts would miss the first event of a series that begins with it. Labelled
        histograms are left out, because each of their series takes many lines.
        """
        is_heavy = self.kind is Kind.HISTOGRAM and bool(self.labels)
        if role not in self.roles or not self.is_reported_from_start or is_heavy:
            return
        names = [label.name for label in self.labels]
        for values in product(*(label.values_in(role) for label in self.labels)):
            yield dict(zip(names, values, strict=True))
