"""Why a Pod does not run, in the words of the scheduler, the kubelet or the container itself."""

from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import Final

import attrs

from gpuruntime.models.pods import ContainerStatus, Pod, Terminated

# Waiting for these is on the way to running, not a failure.
HARMLESS: Final = frozenset({"ContainerCreating", "PodInitializing", ""})
MOST_TEXT: Final = 1_024


class FailureKind(StrEnum):
    STARTUP = "startup"
    UNSCHEDULABLE = "unschedulable"


@attrs.frozen(kw_only=True, slots=True)
class PodFailure:
    kind: FailureKind
    message: str


def failure_of(pods: Iterable[Pod]) -> PodFailure | None:
    """The most useful text: of a container before the scheduler's, of the newest Pod first."""
    living = [pod for pod in pods if pod.metadata.deletionTimestamp is None]
    newest = sorted(living, key=_age, reverse=True)
    return next(
        (
            failure
            for find in (_startup, _unschedulable)
            for pod in newest
            if (failure := find(pod))
        ),
        None,
    )


def _age(pod: Pod) -> tuple[float, str]:
    created = pod.metadata.creationTimestamp
    return (created.timestamp() if created else 0.0, pod.metadata.name)


def _startup(pod: Pod) -> PodFailure | None:
    if pod.is_ready:
        return None
    for status in (*pod.status.initContainerStatuses, *pod.status.containerStatuses):
        for text in _texts(status):
            return _failure(f"{pod.metadata.name}/{status.name}: {text}")
    if pod.status.phase == "Failed":
        return _failure(f"{pod.metadata.name}: {_joined(pod.status.reason, pod.status.message)}")
    return None


def _texts(status: ContainerStatus) -> Iterator[str]:
    waiting, ended = status.state.waiting, status.state.terminated
    last = status.lastState.terminated
    if waiting and waiting.reason not in HARMLESS:
        # A crash loop's own words say only that it waits: the last end says why.
        is_told = waiting.reason == "CrashLoopBackOff" and last is not None
        yield _joined(waiting.reason, _ending(last) if is_told and last else waiting.message)
    if ended and ended.exitCode:
        yield _joined(ended.reason or "Error", _ending(ended))
    if last and last.exitCode and not status.ready and status.restartCount:
        yield _joined(last.reason or "Error", _ending(last))


def _ending(ended: Terminated) -> str:
    code = f"exit code {ended.exitCode}"
    if ended.reason == "OOMKilled":
        return f"{code}: out of memory: the process took more than the unit's memory"
    return f"{code}: {ended.message.strip()}" if ended.message.strip() else code


def _unschedulable(pod: Pod) -> PodFailure | None:
    condition = pod.condition("PodScheduled")
    if condition is None or condition.status != "False" or condition.reason != "Unschedulable":
        return None
    text = f"{pod.metadata.name}: {condition.message}"[:MOST_TEXT]
    return PodFailure(kind=FailureKind.UNSCHEDULABLE, message=text)


def _failure(text: str) -> PodFailure:
    return PodFailure(kind=FailureKind.STARTUP, message=text[:MOST_TEXT])


def _joined(reason: str, message: str) -> str:
    return f"{reason}: {message}" if message else reason
