"""A cluster whose nodes are this test: each worker's unit gets a real worker and framework."""

import asyncio
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from random import Random

import attrs

from gpuruntime.bus.connection import Connection
from gpuruntime.framework.server import serving
from gpuruntime.models.kinds.functions import Framework
from gpuruntime.serverless.broker import BrokerLink
from gpuruntime.serverless.scaling.activator import ActivatorOptions
from tests.options import configured
from tests.rooms.bus.broker import SMALL, Bus, connection
from tests.rooms.operations.cluster import INSTANCE, Cluster, Document
from tests.rooms.serverless.scaling.scaled import Scaled, composed
from tests.rooms.worker.workers import Ledger, options, running

LOOK_SECONDS = 0.02
QUICK = configured(ActivatorOptions, orphan_seconds=0.5)


@attrs.define(kw_only=True)
class Node:
    """Starts a worker for each unit of the cluster, and stops it when its unit is gone."""

    made: Bus
    cluster: Cluster
    ledger: Ledger
    tasks: asyncio.TaskGroup
    running: dict[str, asyncio.Task[None]] = attrs.field(factory=dict)
    # Every worker that ever started, by uid.
    started: list[str] = attrs.field(factory=list)

    async def run(self) -> None:
        while True:
            self._look()
            await asyncio.sleep(LOOK_SECONDS)

    def _look(self) -> None:
        units = {
            unit["metadata"]["uid"]: unit
            for unit in self.cluster.units
            if "workerOf" in unit["spec"].get("serverless", {})
        }
        for uid in units.keys() - self.running.keys():
            self.started.append(units[uid]["metadata"]["name"])
            self.running[uid] = self.tasks.create_task(self._work(units[uid]))
        for uid in self.running.keys() - units.keys():
            self.running.pop(uid).cancel()

    async def _work(self, unit: Document) -> None:
        name, function = unit["metadata"]["name"], unit["spec"]["serverless"]
        with tempfile.TemporaryDirectory(prefix="fw-") as folder:
            where = Framework(socketPath=str(Path(folder, "framework.sock")))
            chosen = options(
                name,
                where,
                function=function["requestID"],
                concurrency=function.get("concurrency", 1),
            )
            async with (
                serving(self.ledger.handle, where),
                running(self.made.url, self.made.names, chosen) as worker,
            ):
                while worker.not_ready:  # noqa: ASYNC110 - as a probe would
                    await asyncio.sleep(LOOK_SECONDS)
                self.cluster.make_ready(INSTANCE, name)
                await asyncio.Event().wait()


@attrs.frozen(kw_only=True)
class Fleet:
    scaled: Scaled
    node: Node
    ledger: Ledger


def _queue(own: Connection, made: Bus) -> BrokerLink:
    return BrokerLink(own, made.names, rng=Random(4), streams=SMALL)


@asynccontextmanager
async def fleet(made: Bus, *, stock: int = 6) -> AsyncIterator[Fleet]:
    """Run a leading activator on the real broker, with its own connection."""
    cluster, ledger = Cluster(), Ledger()
    cluster.add_stock(stock)
    async with (
        asyncio.TaskGroup() as tasks,
        connection(made.url) as own,
        composed(cluster, _queue(own, made), options=QUICK, now=lambda: datetime.now(UTC)) as up,
    ):
        node = Node(made=made, cluster=cluster, ledger=ledger, tasks=tasks)
        lives = [tasks.create_task(up.activator.run()), tasks.create_task(node.run())]
        yield Fleet(scaled=up, node=node, ledger=ledger)
        for live in (*lives, *node.running.values()):
            live.cancel()
