"""The metrics of one role: a Meter over a registry of its own, written as Prometheus text."""

from typing import TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.metrics import MetricWrapperBase

PREFIX = "gpuruntime_"
# From one in-memory lookup to a slow image pull.
BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)
# A metric with more series than this has a label that should not be one.
MOST_SERIES = 2_000
OVERFLOW = "other"

MetricT = TypeVar("MetricT", bound=MetricWrapperBase)


class Registry:
    """Implements Meter; several roles in one process each have their own."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._metrics: dict[str, MetricWrapperBase] = {}
        # By the labels as the caller spelled them: prometheus_client's own look costs more than
        # all the rest of counting.
        self._series: dict[str, dict[tuple[tuple[str, str], ...], MetricWrapperBase]] = {}

    def count(self, name: str, amount: float = 1, /, **labels: str) -> None:
        self._series_of(Counter, name, labels).inc(amount)

    def gauge(self, name: str, value: float, /, **labels: str) -> None:
        self._series_of(Gauge, name, labels).set(value)

    def observe(self, name: str, seconds: float, /, **labels: str) -> None:
        self._series_of(Histogram, name, labels).observe(seconds)

    def text(self) -> bytes:
        return generate_latest(self._registry)

    def _series_of(self, kind: type[MetricT], name: str, labels: dict[str, str]) -> MetricT:
        given = tuple(labels.items())
        known = self._series.setdefault(name, {})
        series = known.get(given)
        if series is None:
            series = self._find(kind, name, labels)
            if len(known) < MOST_SERIES:
                known[given] = series
        if not isinstance(series, kind):
            raise TypeError(f"metric {name} is a {type(series).__name__}, not a {kind.__name__}")
        return series

    def _find(self, kind: type[MetricT], name: str, labels: dict[str, str]) -> MetricWrapperBase:
        metric = self._metrics.get(name)
        if metric is None:
            metric = self._metrics[name] = self._make(kind, name, labels)
        if not labels:
            return metric
        is_full = len(self._series[name]) >= MOST_SERIES
        return metric.labels(**(dict.fromkeys(labels, OVERFLOW) if is_full else labels))

    def _make(self, kind: type[MetricT], name: str, labels: dict[str, str]) -> MetricWrapperBase:
        full = name if name.startswith(PREFIX) else PREFIX + name
        description = name.replace("_", " ")
        if kind is Histogram:
            return Histogram(
                full, description, list(labels), registry=self._registry, buckets=BUCKETS
            )
        return kind(full, description, list(labels), registry=self._registry)
