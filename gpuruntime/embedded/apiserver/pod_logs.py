"""The logs of containers: requests, their source, and their stream."""

from collections.abc import AsyncIterator
from typing import Final, Protocol

import attrs

from gpuruntime.embedded.apiserver.documents import Document
from gpuruntime.embedded.apiserver.query_options import TRUE, Query
from gpuruntime.embedded.apiserver.status_errors import bad_request
from gpuruntime.kube.transport import Response


@attrs.frozen(kw_only=True, slots=True)
class LogRequest:
    """A request for a log; `tail` is the number of last lines, None for all."""

    namespace: str
    pod: str
    container: str
    tail: int | None = None
    is_previous: bool = False


class PodLogs(Protocol):
    """The logs of the containers that a node runs."""

    def read(self, request: LogRequest) -> bytes:
        """Return the log as it is now; raise StatusError if there can be none."""
        ...

    def follow(self, request: LogRequest) -> AsyncIterator[bytes]:
        """Yield the log as it is now and each addition until the container ends."""
        ...


class NoLogs:
    """Logs of a server without nodes: no container runs, so nothing was written."""

    def read(self, request: LogRequest) -> bytes:
        raise bad_request(
            f'container "{request.container}" in pod "{request.pod}" is waiting to start: '
            "ContainerCreating"
        )

    async def follow(self, request: LogRequest) -> AsyncIterator[bytes]:
        yield self.read(request)


NO_LOGS: Final[PodLogs] = NoLogs()


def log_request(pod: Document, query: Query) -> LogRequest:
    """Return the request for one container; a Pod with several needs its name.

    No log here has times, so a request for some is refused rather than answered with all.
    """
    metadata = pod["metadata"]
    container = container_named(query.get("container", ""), pod)
    if query.get("sinceSeconds") or query.get("timestamps") in TRUE:
        raise bad_request(
            "the embedded cluster keeps no times of log lines: ask without since and timestamps"
        )
    return LogRequest(
        namespace=metadata["namespace"],
        pod=metadata["name"],
        container=container,
        tail=int(query["tailLines"]) if query.get("tailLines", "").isdecimal() else None,
        is_previous=query.get("previous") in TRUE,
    )


def container_named(container: str, pod: Document) -> str:
    """Return the container, by default the only one; raise StatusError if there is none."""
    name, spec = pod["metadata"]["name"], pod["spec"]
    containers = [each["name"] for each in spec["containers"] + (spec.get("initContainers") or [])]
    if not container and len(spec["containers"]) > 1:
        listed = " ".join(containers)
        message = f"a container name must be specified for pod {name}, choose one of: [{listed}]"
        raise bad_request(message)
    if container and container not in containers:
        raise bad_request(f"container {container} is not valid for pod {name}")
    return container or containers[0]


def text(body: bytes) -> Response:
    return Response(status=200, headers={"content-type": "text/plain"}, body=body)


@attrs.frozen(slots=True)
class LogStream:
    """A Stream of what a container writes."""

    lines: AsyncIterator[bytes]

    @property
    def status(self) -> int:
        return 200

    @property
    def headers(self) -> dict[str, str]:
        return {"content-type": "text/plain"}

    async def chunks(self) -> AsyncIterator[bytes]:
        async for line in self.lines:
            yield line

    def close(self) -> None:
        """Do nothing: the iterator is closed by its reader."""
