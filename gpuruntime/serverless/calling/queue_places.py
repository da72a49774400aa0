"""The place of a queued invocation in its function's queue, and what it waits for."""

from datetime import datetime
from typing import Final

import attrs
import structlog

from gpuruntime.bus.batch_reads import read_batch
from gpuruntime.bus.errors import BusError
from gpuruntime.bus.messages import Record
from gpuruntime.concurrency.clock import loop_time
from gpuruntime.models.kinds.invocations import State, WaitingFor
from gpuruntime.models.kinds.units import GPUUnit
from gpuruntime.operations.lookup.caches import FUNCTION, WORKER_OF, Cache
from gpuruntime.operations.lookup.repository import owner_of
from gpuruntime.serverless.broker import BrokerLink
from gpuruntime.serverless.calling.waiting_status import waiting_for
from gpuruntime.serverless.scaling.heartbeats import Heartbeats
from gpuruntime.serverless.scaling.queue_depths import Depths
from gpuruntime.serverless.scaling.worker_plan import SILENT_SECONDS

log = structlog.get_logger()

# Only the count of the messages behind the first one matters.
_ONE_MESSAGE: Final = 1


@attrs.frozen(kw_only=True, slots=True)
class QueuePlace:
    """`position` begins with 1, and is None while the broker cannot tell it."""

    position: int | None = None
    waiting_for: WaitingFor | None = None


NOT_QUEUED: Final = QueuePlace()


class QueuePlaces:
    def __init__(self, queue: BrokerLink, units: Cache[GPUUnit], beats: Heartbeats) -> None:
        self._queue = queue
        self._units = units
        self._beats = beats
        self._depths = Depths(queue.jetstream, queue.names, queue.records)

    async def place_of(self, record: Record) -> QueuePlace:
        """Return the place of an invocation that is queued, else NOT_QUEUED.

        It costs two requests to the broker, however long the queue is.
        """
        if record.state is not State.QUEUED:
            return NOT_QUEUED
        position = None
        try:
            position = await self._position(record.serverlessRequestID, record.acceptedAt)
        except BusError as error:
            log.debug("position unknown", invocation=record.invocationID, reason=str(error))
        return QueuePlace(position=position, waiting_for=self._waiting_for(record))

    async def _position(self, function: str, accepted_at: datetime) -> int:
        """Return the position among the invocations that no worker holds.

        The message is stored right after the acceptance. So all those that were stored before the
        acceptance are ahead, but for those that run. Invocations that are accepted at the same
        moment may share a position.
        """
        depth = await self._depths.of(function)
        batch = await read_batch(
            self._queue.connection,
            self._queue.names.invocations,
            self._queue.names.invoke(function),
            after=accepted_at,
            most=_ONE_MESSAGE,
            most_bytes=_ONE_MESSAGE,
        )
        behind = len(batch.messages) + batch.left
        running = self._beats.busy(function, since=loop_time() - SILENT_SECONDS)
        return max(depth - running - max(behind, 1), 0) + 1

    def _waiting_for(self, record: Record) -> WaitingFor | None:
        store = self._units.store
        template = owner_of(store.by_index(FUNCTION, record.serverlessRequestID))
        workers = store.by_index(WORKER_OF, template.metadata.uid) if template else ()
        return waiting_for(record, template, workers)
