"""The metrics of one role: a Meter over its own registry, written as Prometheus text."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from heapq import nlargest
from operator import itemgetter
from typing import Final, TypeVar

import attrs
from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client import Metric as Family
from prometheus_client.metrics import MetricWrapperBase
from prometheus_client.metrics_core import GaugeMetricFamily
from prometheus_client.registry import Collector

from gpuruntime.telemetry.catalogue import CATALOGUE
from gpuruntime.telemetry.metric import Kind, Metric, RoleName

# From a lookup in memory to a slow image pull.
BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)
# A metric with more series than this has an unbounded label.
MOST_SERIES = 2_000
OVERFLOW = "other"
KINDS: Final[dict[Kind, type[MetricWrapperBase]]] = {
    Kind.COUNTER: Counter,
    Kind.GAUGE: Gauge,
    Kind.HISTOGRAM: Histogram,
}

MetricT = TypeVar("MetricT", bound=MetricWrapperBase)

# The creation time of each series would be a second line for it, without any use.
disable_created_metrics()  # type: ignore[no-untyped-call]  # half of it has types


class Registry:
    """A Meter with its own registry, even for several roles in one process.

    A role's registry shows from the start its process, and every series that is known beforehand.
    """

    def __init__(
        self, role: RoleName | None = None, *, catalogue: Iterable[Metric] = CATALOGUE
    ) -> None:
        self._registry = CollectorRegistry()
        self._catalogue = {metric.name: metric for metric in catalogue}
        self._metrics: dict[str, MetricWrapperBase] = {}
        # By the labels as the caller gave them: prometheus_client's own lookup costs more than the
        # rest of counting.
        self._series: dict[str, dict[tuple[tuple[str, str], ...], MetricWrapperBase]] = {}
        self.role = role.value if role is not None else ""
        if role is not None:
            ProcessCollector(registry=self._registry)
            self._create_known_series(role)

    def count(self, name: str, amount: float = 1, /, **labels: str) -> None:
        self._series_of(Counter, name, labels).inc(amount)

    def gauge(self, name: str, value: float, /, **labels: str) -> None:
        self._series_of(Gauge, name, labels).set(value)

    def observe(self, name: str, seconds: float, /, **labels: str) -> None:
        self._series_of(Histogram, name, labels).observe(seconds)

    def gauge_from(self, name: str, read: Callable[[], Mapping[tuple[str, ...], float]]) -> None:
        """Call `read` at each scrape; a series that it does not return is gone.

        Its keys are the values of the labels, in the order of the catalogue.
        """
        self._registry.register(_ScrapedGauge(self._described(name), read))

    def text(self) -> bytes:
        return b"".join(self.families())

    def families(self) -> Iterator[bytes]:
        """Yield the text in pieces: at once it would hold the loop for tens of milliseconds."""
        for family in self._registry.collect():
            yield generate_latest(_Collected(family))

    def _create_known_series(self, role: RoleName) -> None:
        for metric in self._catalogue.values():
            for labels in metric.series_at_start(role):
                self._series_of(KINDS[metric.kind], metric.name, labels)

    def _series_of(self, kind: type[MetricT], name: str, labels: dict[str, str]) -> MetricT:
        given = tuple(labels.items())
        known = self._series.setdefault(name, {})
        series = known.get(given)
        if series is None:
            series = self._find(name, labels)
            if len(known) < MOST_SERIES:
                known[given] = series
        if not isinstance(series, kind):
            raise TypeError(f"metric {name} is a {type(series).__name__}, not a {kind.__name__}")
        return series

    def _find(self, name: str, labels: dict[str, str]) -> MetricWrapperBase:
        metric = self._metrics.get(name)
        if metric is None:
            metric = self._metrics[name] = self._make(name)
        if not labels:
            return metric
        is_full = len(self._series[name]) >= MOST_SERIES
        return metric.labels(**(dict.fromkeys(labels, OVERFLOW) if is_full else labels))

    def _make(self, name: str) -> MetricWrapperBase:
        metric = self._described(name)
        labels = [label.name for label in metric.labels]
        if metric.kind is Kind.HISTOGRAM:
            return Histogram(
                metric.full_name,
                metric.help,
                labels,
                registry=self._registry,
                buckets=metric.buckets or BUCKETS,
            )
        return KINDS[metric.kind](metric.full_name, metric.help, labels, registry=self._registry)

    def _described(self, name: str) -> Metric:
        metric = self._catalogue.get(name)
        if metric is None:
            raise LookupError(f"metric {name} is not in the catalogue: describe it there")
        return metric


@attrs.frozen
class _Collected(Collector):
    family: Family

    def collect(self) -> Iterator[Family]:
        yield self.family


@attrs.frozen(eq=False)
class _ScrapedGauge(Collector):
    """A gauge read at each scrape. Of too many series, the greatest values are kept."""

    metric: Metric
    read: Callable[[], Mapping[tuple[str, ...], float]]

    def collect(self) -> Iterator[GaugeMetricFamily]:
        labels = [label.name for label in self.metric.labels]
        family = GaugeMetricFamily(self.metric.full_name, self.metric.help, labels=labels)
        rows = self.read().items()
        for values, value in nlargest(MOST_SERIES, rows, key=itemgetter(1)):
            family.add_metric(values, value)
        yield family

    def describe(self) -> Iterator[GaugeMetricFamily]:
        """Describe the metric without a call of `read`, which may not be possible yet."""
        yield GaugeMetricFamily(self.metric.full_name, self.metric.help)
