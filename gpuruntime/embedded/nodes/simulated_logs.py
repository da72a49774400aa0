"""Logs of simulated containers: a line that says so, and the termination message."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Final

from gpuruntime.embedded.apiserver.pod_logs import LogRequest
from gpuruntime.embedded.apiserver.status_errors import bad_request
from gpuruntime.embedded.kinds.pod_objects import ContainerState, ContainerStatus, Pod
from gpuruntime.embedded.nodes.pod_status_plan import SIMULATED
from gpuruntime.models.kubernetes.metadata import Key

POLL_SECONDS: Final = 1.0


class SimulatedLogs:
    """Logs from the Pod's status, the only trace that a simulated container leaves."""

    def __init__(self, pod_of: Callable[[Key], Pod | None]) -> None:
        self._pod_of = pod_of

    def read(self, request: LogRequest) -> bytes:
        """Return the log; raise StatusError if the container has not started."""
        container = self._container(request)
        state = _state(container, request)
        if state.terminated is None and state.running is None:
            raise _not_begun(container, request)
        subject = f"container {request.container} of {request.namespace}/{request.pod}"
        why = self._why(request)
        lines = [f"simulated: {subject} runs by the clock, without any process{why}"]
        if state.terminated is not None:
            lines += state.terminated.message.splitlines()
        dropped = 0 if request.tail is None else max(0, len(lines) - request.tail)
        return "".join(f"{line}\n" for line in lines[dropped:]).encode()

    async def follow(self, request: LogRequest) -> AsyncIterator[bytes]:
        """Yield the log and end with the container; nothing is added while it runs."""
        yield self.read(request)
        while self._runs(request):  # noqa: ASYNC110  # any number of readers of one status
            await asyncio.sleep(POLL_SECONDS)

    def _runs(self, request: LogRequest) -> bool:
        container = self._container(request)
        return container is not None and container.state.running is not None

    def _why(self, request: LogRequest) -> str:
        """Return the words that follow SIMULATED in the Pod's message."""
        pod = self._pod_of(Key(request.namespace, request.pod))
        return pod.status.message.partition(SIMULATED)[2] if pod else ""

    def _container(self, request: LogRequest) -> ContainerStatus | None:
        pod = self._pod_of(Key(request.namespace, request.pod))
        statuses = (
            (*pod.status.containerStatuses, *pod.status.initContainerStatuses) if pod else ()
        )
        return next((each for each in statuses if each.name == request.container), None)


def _state(container: ContainerStatus | None, request: LogRequest) -> ContainerState:
    """Return the requested run's state; a container waiting for its restart shows the last run."""
    if container is None:
        return ContainerState()
    if request.is_previous:
        return container.lastState
    return container.lastState if container.state.waiting else container.state


def _not_begun(container: ContainerStatus | None, request: LogRequest) -> Exception:
    subject = f'container "{request.container}" in pod "{request.pod}"'
    if request.is_previous:
        return bad_request(f"previous terminated {subject} not found")
    waiting = container.state.waiting if container else None
    reason = waiting.reason if waiting else "ContainerCreating"
    if reason in ("ErrImagePull", "ImagePullBackOff"):
        reason = "trying and failing to pull image"
    return bad_request(f"{subject} is waiting to start: {reason}")
