"""An idle cluster uses almost no processor time."""

import asyncio
import time
from datetime import UTC, datetime

import pytest

from gpuruntime.embedded.cluster import EmbeddedCluster

MOMENT = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.looptime
async def test_an_idle_cluster_sleeps_through_an_hour_of_bookmarks() -> None:
    cluster = EmbeddedCluster(now=lambda: MOMENT)
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(cluster.run(), name="cluster")
        await cluster.ready.wait()
        started = time.process_time()
        await asyncio.sleep(3_600)
        running.cancel()
    assert time.process_time() - started < 10.0
