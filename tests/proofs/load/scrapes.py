"""The metrics that a process shows at `/metrics`, and their growth between two scrapes."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from math import ceil, inf

import attrs
from prometheus_client.parser import text_string_to_metric_families

Labels = tuple[tuple[str, str], ...]


@attrs.frozen
class Scrape:
    series: Mapping[tuple[str, Labels], float]

    def __sub__(self, earlier: "Scrape") -> "Scrape":
        """Return the growth since an earlier scrape. It means nothing for gauges."""
        return Scrape(
            {each: value - earlier.series.get(each, 0.0) for each, value in self.series.items()}
        )

    def total(self, name: str, **labels: str) -> float:
        """Return the sum of all series that have these labels."""
        return sum(value for _, value in self._of(name, labels))

    def most(self, name: str, **labels: str) -> float:
        return max((value for _, value in self._of(name, labels)), default=0.0)

    def by(self, name: str, *wanted: str) -> dict[tuple[str, ...], float]:
        """Return the non-zero totals, by the values of the wanted labels."""
        found: defaultdict[tuple[str, ...], float] = defaultdict(float)
        for labels, value in self._of(name, {}):
            if value:
                found[tuple(labels[each] for each in wanted)] += value
        return found

    def at_most(self, name: str, share: float, **labels: str) -> float:
        """Return the smallest bucket bound that this share of the observations does not exceed."""
        buckets: defaultdict[float, float] = defaultdict(float)
        for found, value in self._of(f"{name}_bucket", labels):
            buckets[float(found["le"])] += value
        wanted = ceil(share * buckets[inf])
        if not wanted:
            return 0.0
        return min(bound for bound, count in buckets.items() if count >= wanted)

    def _of(self, name: str, wanted: Mapping[str, str]) -> Iterator[tuple[dict[str, str], float]]:
        for (found, labels), value in self.series.items():
            if found == name and wanted.items() <= dict(labels).items():
                yield dict(labels), value


def read(text: str) -> Scrape:
    return Scrape(
        {
            (sample.name, tuple(sorted(sample.labels.items()))): sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        }
    )
