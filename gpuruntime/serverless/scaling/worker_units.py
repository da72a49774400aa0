"""A function's workers as units: claimed like any other unit, drained, and deleted."""

from random import Random
from typing import Final

import attrs
import structlog

from gpuruntime.bus.connection import Connection
from gpuruntime.bus.errors import UnavailableError
from gpuruntime.bus.messages import Control, ControlCommand, encode
from gpuruntime.bus.names import Names
from gpuruntime.kube.errors import NotFoundError
from gpuruntime.models.encoding.members import shared
from gpuruntime.models.kinds import labels
from gpuruntime.models.kinds.functions import Serverless, WorkerOf
from gpuruntime.models.kinds.units import GPU_UNITS, GPUUnit
from gpuruntime.models.kubernetes.timestamps import rfc3339
from gpuruntime.models.requests.units import CreateUnit
from gpuruntime.operations.context import OperationContext
from gpuruntime.operations.deletion import Deletions
from gpuruntime.operations.errors import (
    BusyError,
    ClusterUnavailableError,
    OperationsError,
    UnknownOutcomeError,
    bounded,
)
from gpuruntime.operations.operations import tombstones_of
from gpuruntime.operations.storage_identity import uids_asked
from gpuruntime.operations.units import Units
from gpuruntime.serverless.scaling.worker_plan import Shortage
from gpuruntime.strict.structure import StrictError

log = structlog.get_logger()

TOKEN_BYTES: Final = 8
# After these errors the state of the claim is unknown; repeating the operation resolves it.
_OPEN: Final = (UnknownOutcomeError, ClusterUnavailableError, BusyError)


class WorkerUnits:
    def __init__(
        self,
        means: OperationContext,
        units: Units,
        connection: Connection,
        names: Names,
        *,
        rng: Random,
    ) -> None:
        self._means = means
        self._units = units
        self._deletions = Deletions(means.client, tombstones_of(means))
        self._connection = connection
        self._names = names
        self._rng = rng
        # Unfinished operations, by the template's uid and the worker's name.
        self._open: dict[tuple[str, str], str] = {}

    async def claim(self, template: GPUUnit, function: Serverless, name: str) -> str:
        """Claim stock for a worker; return "" on success, else the code of the failure."""
        seat = (template.metadata.uid, name)
        operation = self._open.setdefault(seat, self._new_operation(template))
        try:
            order = _order(template, function, name, operation)
            await self._units.create(order, storage_uids=uids_asked(template))
        except _OPEN as error:
            log.warning("outcome of a worker claim unknown", worker=name, error=str(error))
            return error.code
        except (OperationsError, StrictError) as error:
            del self._open[seat]
            log.warning("no worker claimed", worker=name, error=str(error))
            return error.code if isinstance(error, OperationsError) else Shortage.INVALID
        del self._open[seat]
        log.info("worker claimed", worker=name)
        return ""

    async def mark_draining(self, worker: GPUUnit) -> None:
        """Mark the worker as draining, for every later leader as well."""
        marks = {labels.DRAINING: rfc3339(self._means.now())}
        try:
            marked = await self._means.client.patch(
                GPU_UNITS,
                worker.metadata.key,
                {"metadata": {"annotations": marks}},
                resource_version=worker.metadata.resourceVersion,
            )
        except NotFoundError:
            return
        self._means.caches.units.write_through(marked)
        log.info("worker told to drain", worker=worker.metadata.name)

    async def order_drain(self, function: str, worker: GPUUnit) -> None:
        """Order a drain, at most once and unacknowledged; the caller repeats it."""
        name, uid = worker.metadata.name, worker.metadata.uid
        try:
            subject = self._names.control(function, name)
            order = Control(order=ControlCommand.DRAIN, uid=uid)
            await self._connection.publish(subject, encode(order))
        except UnavailableError as error:
            log.debug("drain not ordered", worker=name, error=str(error))

    async def delete(self, worker: GPUUnit) -> None:
        """Delete the worker, or raise OperationsError; its messages return to the queue."""
        async with bounded(f"deletion of worker {worker.metadata.name}", seconds=self._bound):
            await self._deletions.delete(GPU_UNITS, worker)
        log.info("worker deleted", worker=worker.metadata.name)

    @property
    def _bound(self) -> float:
        return self._means.options.attempt_seconds

    def _new_operation(self, template: GPUUnit) -> str:
        """Return an operationID for one claim; callers cannot use its prefix."""
        token = self._rng.randbytes(TOKEN_BYTES).hex()
        return f"gpuruntime:worker:{template.metadata.uid}:{token}"


def _order(template: GPUUnit, function: Serverless, name: str, operation: str) -> CreateUnit:
    owner = WorkerOf(name=template.metadata.name, uid=template.metadata.uid)
    own = {
        "operationID": operation,
        "name": name,
        "serverless": attrs.evolve(function, workerOf=owner),
        "tenant": template.metadata.labels.get(labels.TENANT, ""),
    }
    return CreateUnit(**{**shared(template.spec, CreateUnit), **own})
