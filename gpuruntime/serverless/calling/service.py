"""The use cases on invocations, functions and dead letters, assembled for the API."""

import asyncio
from collections.abc import Callable
from datetime import datetime
from random import Random

import attrs

from gpuruntime.bus.session import Message
from gpuruntime.concurrency.clock import loop_time
from gpuruntime.kube.client import Client
from gpuruntime.meter import Meter, NullMeter
from gpuruntime.models.kinds.units import GPUUnit
from gpuruntime.operations.lookup.caches import Cache
from gpuruntime.serverless.broker import BrokerLink
from gpuruntime.serverless.calling.acceptance import Acceptance
from gpuruntime.serverless.calling.dead_letters import DeadLetters
from gpuruntime.serverless.calling.functions import Functions
from gpuruntime.serverless.calling.invocations import Invocations
from gpuruntime.serverless.calling.queue_places import QueuePlaces
from gpuruntime.serverless.calling.wakeups import Wakeups
from gpuruntime.serverless.results.store import ResultReader
from gpuruntime.serverless.scaling.heartbeats import Heartbeats, uids_in
from gpuruntime.serverless.scaling.worker_plan import SILENT_SECONDS


@attrs.frozen(kw_only=True, slots=True)
class ServiceOptions:
    """`retention_seconds` is how long the broker keeps the end of an invocation."""

    namespace: str
    retention_seconds: float


@attrs.frozen(kw_only=True, slots=True)
class ServiceContext:
    client: Client
    units: Cache[GPUUnit]
    queue: BrokerLink
    now: Callable[[], datetime]
    rng: Random
    results: ResultReader | None = None
    meter: Meter = NullMeter()


@attrs.frozen(kw_only=True, slots=True)
class FunctionService:
    queue: BrokerLink
    acceptance: Acceptance
    invocations: Invocations
    functions: Functions
    dead_letters: DeadLetters
    wakes: Wakeups
    beats: Heartbeats

    async def run(self) -> None:
        """Connect, declare the streams, wake the activator and receive heartbeats, forever."""
        connection, names = self.queue.connection, self.queue.names
        async with (
            connection.listening(names.all_beats, self._on_beat),
            asyncio.TaskGroup() as tasks,
        ):
            tasks.create_task(self.queue.run(), name="queue")
            tasks.create_task(self.wakes.run(), name="wakes")
            tasks.create_task(self._forget_silent(), name="silent workers")

    def _on_beat(self, message: Message) -> None:
        self.beats.receive(message, at=loop_time())

    async def _forget_silent(self) -> None:
        while True:
            await asyncio.sleep(SILENT_SECONDS)
            since = loop_time() - SILENT_SECONDS
            self.beats.forget_silent(since=since)


def service_of(means: ServiceContext, options: ServiceOptions) -> FunctionService:
    """Create the use cases; call this before the informer of the units' cache runs."""
    queue, now = means.queue, means.now
    beats = Heartbeats(queue.names, uids_in(means.units, options.namespace))
    functions = Functions(
        means.client, means.units, queue, beats, namespace=options.namespace, now=now
    )
    wakes = Wakeups(queue.connection, queue.names)
    acceptance = Acceptance(queue, functions, wakes, now=now, rng=means.rng, meter=means.meter)
    return FunctionService(
        queue=queue,
        acceptance=acceptance,
        invocations=Invocations(
            queue,
            acceptance,
            QueuePlaces(queue, means.units, beats),
            now=now,
            retention_seconds=options.retention_seconds,
            results=means.results,
            meter=means.meter,
        ),
        functions=functions,
        dead_letters=DeadLetters(
            queue, functions, acceptance, now=now, retention_seconds=options.retention_seconds
        ),
        wakes=wakes,
        beats=beats,
    )
