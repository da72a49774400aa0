"""The embedded cluster as a process, for tests that block: run this module with `python -m`."""

import asyncio
import sys
from datetime import UTC, datetime

from gpuruntime.embedded.apiserver.http_listener import serve
from gpuruntime.embedded.cluster import ClusterOptions, EmbeddedCluster
from gpuruntime.embedded.nodes.seed_objects import NodeOptions


async def main(prefix: str, gpus: int) -> None:
    options = ClusterOptions(nodes=NodeOptions(prefix=prefix, gpus=gpus))
    cluster = EmbeddedCluster(now=lambda: datetime.now(UTC), options=options)
    async with asyncio.TaskGroup() as tasks, serve(cluster.server) as url:
        tasks.create_task(cluster.run(), name="cluster")
        await cluster.ready.wait()
        sys.stdout.write(f"{url}\n")
        sys.stdout.flush()
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
