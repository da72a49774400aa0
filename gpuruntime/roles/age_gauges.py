"""Gauges that are looked up at a scrape, of what several roles have."""

from collections.abc import Collection
from typing import Any

from gpuruntime.telemetry.metrics import Registry
from gpuruntime.workqueue.queue import WorkQueue


def tell_ages(registry: Registry, queues: Collection[WorkQueue[Any]]) -> None:
    """Of a queue that nobody serves nothing else moves."""
    registry.gauge_from(
        "workqueue_oldest_seconds",
        lambda: {(queue.name,): queue.oldest_seconds for queue in queues},
    )
