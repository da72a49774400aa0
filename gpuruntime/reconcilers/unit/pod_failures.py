"""Why a Pod does not run, in the words of the scheduler, the kubelet or the container itself.

The text stays the same while the kubelet retries. A status that named each state in between would
be written several times per restart.
"""

from collections.abc import Iterable
from datetime import datetime
from enum import StrEnum
from typing import Final

import attrs

from gpuruntime.models.kubernetes.pods import ContainerStatus, Pod, Terminated

# These waiting reasons belong to a normal start.
HARMLESS: Final = frozenset({"ContainerCreating", "PodInitializing", ""})
CRASH_LOOP: Final = "CrashLoopBackOff"
# A Pod in one of these phases never runs again. An evicted Pod stays beside its successor.
ENDED: Final = frozenset({"Failed", "Succeeded"})
MOST_TEXT: Final = 1_024


class FailureKind(StrEnum):
    STARTUP = "startup"
    UNSCHEDULABLE = "unschedulable"


@attrs.frozen(kw_only=True, slots=True)
class PodFailure:
    """A failure of a Pod; `since` is when it began, or None if the Pod does not say."""

    kind: FailureKind
    message: str
    since: datetime | None = None


def unended(pods: Iterable[Pod]) -> tuple[Pod, ...]:
    """Return the Pods that may run, including terminating ones."""
    return tuple(pod for pod in pods if pod.status.phase not in ENDED)


def current_pod(pods: Iterable[Pod]) -> Pod | None:
    """Return the newest Pod that is not being deleted, or None; ended ones come last."""
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
    """Return the last crash of a container that was restarted, even if it is ready now."""
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
    """Return the cause of the last crash. The message of a crash loop says only that it waits."""
    waiting, ended = status.state.waiting, status.state.terminated or status.lastState.terminated
    is_looping = waiting is not None and waiting.reason == CRASH_LOOP
    if ended is None:
        return _joined(CRASH_LOOP, waiting.message) if waiting and is_looping else ""
    if is_looping or _ends(status) > 1:
        return _joined(CRASH_LOOP, _ending(ended))
    return _joined(ended.reason or "Error", _ending(ended)) if ended.exitCode else ""


def _ends(status: ContainerStatus) -> int:
    """Return how often the container has ended; `restartCount` lags until it starts again."""
    return status.restartCount + (status.state.running is None)


def _ending(ended: Terminated) -> str:
    words = [f"exit code {ended.exitCode}"]
    if ended.reason == "OOMKilled":
        words.append("out of memory: the process took more than the unit's memory")
    return ": ".join([*words, *filter(None, [ended.message.strip()])])


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
