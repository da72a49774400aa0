"""The use cases of the API's ingress, on an embedded cluster and a real broker."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from operator import not_
from random import Random
from typing import Any

import attrs

from gpuruntime.bus.connection import Connection
from gpuruntime.bus.credentials import ConnectionOptions
from gpuruntime.bus.messages import Invocation, read
from gpuruntime.bus.names import Names
from gpuruntime.bus.provisioning import declare_consumer
from gpuruntime.bus.streams import StreamOptions, consumer_declaration
from gpuruntime.meter import Meter, NullMeter
from gpuruntime.models.kinds.units import GPU_UNITS
from gpuruntime.models.requests.invocations import Invoke
from gpuruntime.serverless.broker import BrokerLink
from gpuruntime.serverless.calling.requests import parse_invoke
from gpuruntime.serverless.calling.service import (
    FunctionService,
    ServiceContext,
    ServiceOptions,
    service_of,
)
from gpuruntime.serverless.results.store import ResultReader
from tests.eventually import eventually
from tests.options import configured
from tests.rooms.bus.broker import FUNCTION, SMALL, Bus
from tests.rooms.operations.cluster import INSTANCE, Cluster, Replica, replica


def wall_clock() -> datetime:
    """Return the wall clock, by which workers in other processes judge deadlines."""
    return datetime.now(UTC)


@attrs.frozen(kw_only=True)
class Site:
    """A replica of the API with its ingress, and the broker as its tests see it."""

    cluster: Cluster
    replica: Replica
    ingress: FunctionService
    bus: Bus

    async def messages(self, function: str = FUNCTION) -> list[tuple[int, Invocation]]:
        """Return the queued messages of the function with their sequences."""
        found: list[tuple[int, Invocation]] = []
        after, names = 0, self.bus.names
        while message := await self.bus.jetstream.following(
            names.invocations, names.invoke(function), after=after
        ):
            after = message.sequence
            found.append((after, read(message.data, Invocation)))
        return found

    async def state(self, name: str, function: str = FUNCTION) -> str:
        stored = await self.bus.records.read_latest(function, name)
        return stored.record.state.value if stored else ""


def queue_of(
    url: str, prefix: str, *, streams: StreamOptions = SMALL, is_on: bool = True
) -> BrokerLink:
    connection = Connection(
        configured(ConnectionOptions, url=url, name="api", connect_seconds=2.0), rng=Random(3)
    )
    return BrokerLink(connection, Names(prefix), rng=Random(4), streams=streams, is_on=is_on)


@asynccontextmanager
async def site(
    url: str,
    prefix: str,
    *,
    cluster: Cluster | None = None,
    streams: StreamOptions = SMALL,
    results: ResultReader | None = None,
    now: Callable[[], datetime] = wall_clock,
    seed: int = 5,
    watch_lag: Callable[[], float] = lambda: 0.001,
    ack_wait_seconds: float = 30.0,
    meter: Meter = NullMeter(),
) -> AsyncIterator[Site]:
    """Run a replica with the tests' function and its consumer, once the streams exist."""
    if cluster is None:
        cluster = Cluster()
        declare_function(cluster)
    queue = queue_of(url, prefix, streams=streams)
    async with replica(cluster, watch_lag=watch_lag) as process, asyncio.TaskGroup() as tasks:
        means = ServiceContext(
            client=process.context.client,
            units=process.units,
            queue=queue,
            now=now,
            rng=Random(seed),
            results=results,
            meter=meter,
        )
        made = service_of(means, configured(ServiceOptions, namespace=INSTANCE))
        running = tasks.create_task(made.run())
        await eventually(lambda: queue.problem, not_)
        consumer = consumer_declaration(queue.names, FUNCTION, ack_wait_seconds=ack_wait_seconds)
        await declare_consumer(queue.jetstream, queue.names.invocations, consumer)
        bus = Bus(url, queue.connection, queue.jetstream, queue.names, queue.records)
        yield Site(cluster=cluster, replica=process, ingress=made, bus=bus)
        running.cancel()


def declare_function(cluster: Cluster, function: str = FUNCTION, **members: Any) -> None:
    """Create the template as kubectl would, without the label."""
    body = {
        "apiVersion": GPU_UNITS.api_version,
        "kind": "GPUUnit",
        "metadata": {"name": f"unit-of-{function}".replace("_", "-")},
        "spec": {
            "specName": "g1.1",
            "image": "python:3.12",
            "serverless": {"requestID": function, **members},
        },
    }
    cluster.call("POST", GPU_UNITS.path(namespace=INSTANCE), body)


def asked(name: str | None = "one", **members: object) -> Invoke:
    """Return a request without an invocationID."""
    body = {"invocationID": name, "serverlessRequestID": FUNCTION, "payload": {"n": 1}, **members}
    return parse_invoke({key: value for key, value in body.items() if value is not None})
