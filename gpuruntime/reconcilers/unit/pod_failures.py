"""Why a Pod does not run, in the words of the scheduler, the kubelet or the container itself.

The text stays the same while the kubelet tries the same thing again: a status that told of each
state in between would be written several times a restart.
"""

from collections.abc import Iterable
from datetime import datetime
from enum import StrEnum
from typing import Final

import attrs

from gpuruntime.models.kubernetes.pods import ContainerStatus, Pod, Terminated

# Waiting for these is on the way to running, not a failure.
HARMLESS: Final = frozenset({"ContainerCreating", "PodInitializing", ""})
CRASH_LOOP: Final = "CrashLoopBackOff"
# The phases of a Pod that will never run again; an evicted one stays beside its successor.
ENDED: Final = frozenset({"Failed", "Succeeded"})
MOST_TEXT: Final = 1_024


class FailureKind(StrEnum):
    STARTUP = "startup"
    UNSCHEDULABLE = "unschedulable"


@attrs.frozen(kw_only=True, slots=True)
class PodFailure:
    """`since` is when it began, as far as the Pod tells."""

    kind: FailureKind
    message: str
    since: datetime | None = None


def unended(pods: Iterable[Pod]) -> tuple[Pod, ...]:
    """Those that may run, ending ones among them."""
    return tuple(pod for pod in pods if pod.status.phase not in ENDED)


def current_pod(pods: Iterable[Pod]) -> Pod | None:
    """The one that serves or is to serve: others are on their way out, or of the past."""
    living = (pod for pod in pods if pod.metadata.deletionTimestamp is None)
    return max(living, key=_currency, default=None)


def failure_of(pods: Iterable[Pod]) -> PodFailure | None:
    pod = current_pod(pods)
    if pod is None:
        return None
    return _startup(pod) or _unschedulable(pod)


def is_unschedulable(pod: Pod | None) -> bool:
    return pod is not None and not pod.spec.nodeName and _unschedulable(pod) is not None


def crash_of(pods: Iterable[Pod]) -> PodFailure | None:
    """The last bad end of a container that runs again, however ready it is by now."""
    pod = current_pod(pods)
    for status in pod.status.containerStatuses if pod else ():
        if pod and status.restartCount and (text := _crash(status)):
            return _failure(f"{pod.metadata.name}/{status.name}: {text}")
    return None


def _currency(pod: Pod) -> tuple[bool, float, str]:
    created = pod.metadata.creationTimestamp
    moment = created.timestamp() if created else 0.0
    return (pod.status.phase not in ENDED, moment, pod.metadata.name)


def _startup(pod: Pod) -> PodFailure | None:
    if pod.is_ready:
        return None
    if pod.status.phase == "Failed" and pod.status.reason:
        return _failure(f"{pod.metadata.name}: {_joined(pod.status.reason, pod.status.message)}")
    for status in (*pod.status.initContainerStatuses, *pod.status.containerStatuses):
        if not status.ready and (text := _refusal(status) or _crash(status)):
            return _failure(f"{pod.metadata.name}/{status.name}: {text}")
    if pod.status.phase == "Failed":
        return _failure(f"{pod.metadata.name}: {_joined('Failed', pod.status.message)}")
    return None


def _refusal(status: ContainerStatus) -> str:
    waiting = status.state.waiting
    if waiting is None or waiting.reason in HARMLESS or waiting.reason == CRASH_LOOP:
        return ""
    return _joined(waiting.reason, waiting.message)


def _crash(status: ContainerStatus) -> str:
    """A crash loop's own words say only that it waits: the last end says why."""
    waiting, ended = status.state.waiting, status.state.terminated or status.lastState.terminated
    is_looping = waiting is not None and waiting.reason == CRASH_LOOP
    if ended is None:
        return _joined(CRASH_LOOP, waiting.message) if waiting and is_looping else ""
    if is_looping or _ends(status) > 1:
        return _joined(CRASH_LOOP, _ending(ended))
    return _joined(ended.reason or "Error", _ending(ended)) if ended.exitCode else ""


def _ends(status: ContainerStatus) -> int:
    """How often it has ended so far; the restart is counted when it starts again."""
    return status.restartCount + (status.state.running is None)


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
    return PodFailure(
        kind=FailureKind.UNSCHEDULABLE, message=text, since=condition.lastTransitionTime
    )


def _failure(text: str) -> PodFailure:
    return PodFailure(kind=FailureKind.STARTUP, message=text[:MOST_TEXT])


def _joined(reason: str, message: str) -> str:
    return f"{reason}: {message}" if message else reason
