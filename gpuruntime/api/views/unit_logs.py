"""Logs of units' Pods, passed on as they come."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import attrs

from gpuruntime.api.errors import UnknownPathError
from gpuruntime.api.views.unit_events import pods_of
from gpuruntime.kube.client import Client
from gpuruntime.kube.errors import BadRequestError, NotFoundError, UnreachableError
from gpuruntime.kube.transport import StreamResponse
from gpuruntime.models.kinds.templates import RUNTIME_CONTAINER
from gpuruntime.models.kinds.units import GPUUnit
from gpuruntime.models.kubernetes.pods import PODS, Pod
from gpuruntime.operations.errors import bounded
from gpuruntime.strict.structure import Problem, StrictError


@attrs.frozen(kw_only=True, slots=True)
class LogQuery:
    """A request for a log; without `tail` and `since_seconds` it is the whole log."""

    container: str = RUNTIME_CONTAINER
    tail: int | None = None
    follow: bool = False
    since_seconds: int | None = None
    is_previous: bool = False
    has_timestamps: bool = False


class UnitLogs:
    def __init__(self, client: Client, *, timeout_seconds: float = 30.0) -> None:
        self._client = client
        self._timeout_seconds = timeout_seconds

    @asynccontextmanager
    async def open(self, unit: GPUUnit, query: LogQuery) -> AsyncIterator[AsyncIterator[bytes]]:
        """Yield the log; raise OperationsError, StrictError or UnknownPathError before its first
        byte.
        """
        name = unit.metadata.name
        async with AsyncExitStack() as opened:
            async with bounded(f"opening the log of unit {name}", self._timeout_seconds):
                pod = await self._pod_of(unit, query)
                stream = await self._stream(opened, pod, query)
            yield _chunks(stream)

    async def _pod_of(self, unit: GPUUnit, query: LogQuery) -> Pod:
        pods = await pods_of(self._client, unit)
        if not pods:
            raise UnknownPathError(f"unit {unit.metadata.name} has no Pod, so it has no log yet")
        names = _containers_of(pods[-1])
        if names and query.container not in names:
            message = f"there is no such container: use one of {', '.join(names)}"
            raise StrictError((Problem(field="container", message=message),))
        return pods[-1]

    async def _stream(self, opened: AsyncExitStack, pod: Pod, query: LogQuery) -> StreamResponse:
        asked = {
            "container": query.container,
            "follow": "true" if query.follow else "",
            "tailLines": "" if query.tail is None else str(query.tail),
            "sinceSeconds": "" if query.since_seconds is None else str(query.since_seconds),
            "previous": "true" if query.is_previous else "",
            "timestamps": "true" if query.has_timestamps else "",
        }
        given = tuple((name, value) for name, value in asked.items() if value)
        log = self._client.stream(PODS, pod.metadata.key, "log", given)
        try:
            return await opened.enter_async_context(log)
        except (BadRequestError, NotFoundError) as error:
            raise UnknownPathError(f"there is no such log: {error}") from error


async def _chunks(stream: StreamResponse) -> AsyncIterator[bytes]:
    """Yield until the log or its connection ends; bytes already sent cannot be taken back."""
    try:
        async for chunk in stream.chunks():
            yield chunk
    except UnreachableError:
        return


def _containers_of(pod: Pod) -> list[str]:
    """Return the names of a Pod's containers; they are unknown until a node has taken the Pod."""
    status = pod.status
    return [each.name for each in (*status.containerStatuses, *status.initContainerStatuses)]
