"""The broker as one role uses it: a reconnecting connection, and the streams."""

import asyncio
from random import Random
from typing import Final

import structlog

from gpuruntime.bus.connection import Connection
from gpuruntime.bus.errors import BusError
from gpuruntime.bus.jetstream import JetStream
from gpuruntime.bus.names import Names
from gpuruntime.bus.provisioning import declare_stream
from gpuruntime.bus.records import Records
from gpuruntime.bus.session import Session
from gpuruntime.bus.streams import StreamOptions, declarations
from gpuruntime.meter import Meter, NullMeter
from gpuruntime.serverless.errors import QueueAwayError

log = structlog.get_logger()

PAUSE_SECONDS: Final = 2.0
OFF: Final = "serverless is off here: set nats.url"


class BrokerLink:
    """The connection and the streams of one role; if serverless is off, every use reports that."""

    def __init__(
        self,
        connection: Connection,
        names: Names,
        *,
        rng: Random,
        streams: StreamOptions,
        is_on: bool = True,
        meter: Meter = NullMeter(),
    ) -> None:
        self.connection = connection
        self.names = names
        self.jetstream = JetStream(connection, meter=meter)
        self.records = Records(self.jetstream, names, rng=rng)
        self._streams = streams
        self._is_on = is_on
        self._declared_on: Session | None = None
        self._fault = "its streams are not declared yet"

    @property
    def problem(self) -> str:
        """Return why nothing can be queued or read; empty while it can."""
        if not self._is_on:
            return OFF
        if self.connection.problem:
            return f"the queue cannot be reached: {self.connection.problem}"
        if self._declared_on is not self.connection.session:
            return f"the queue cannot be used yet: {self._fault}"
        return ""

    def demand(self) -> None:
        """Raise QueueAwayError while there is a problem."""
        if problem := self.problem:
            raise QueueAwayError(problem)

    async def run(self) -> None:
        """Run forever if serverless is on; check the streams on every new session."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.connection.run(), name="broker")
            while True:
                session = await self.connection.connected()
                try:
                    await self._declare()
                except BusError as error:
                    self._note(str(error))
                    await asyncio.sleep(PAUSE_SECONDS)
                    continue
                self._declared_on = session
                await session.ended.wait()

    async def _declare(self) -> None:
        for declaration in declarations(self.names, self._streams):
            await declare_stream(self.jetstream, declaration)

    def _note(self, fault: str) -> None:
        if fault != self._fault:
            log.warning("streams not declared", reason=fault)
        self._fault = fault
