"""Stages of a Pod's start, and the words about the present one.

A start is slow once one of its stages has lasted for `SLOW_SECONDS`. Only a slow start is reported
while it lasts, so a quick one costs no write. The words stay the same within a stage, so a slow
one costs at most one write for each stage.
"""

from datetime import datetime
from itertools import pairwise
from typing import Final

import attrs

from gpuruntime.models.kinds.templates import RUNTIME_CONTAINER
from gpuruntime.models.kinds.units import GPUUnit
from gpuruntime.models.kubernetes.pods import ContainerStatus, Pod
from gpuruntime.models.kubernetes.timestamps import rfc3339
from gpuruntime.reconcilers.unit.pod_template import probed_port

# Three seconds, and the second that may be cut off each moment of a Pod.
SLOW_SECONDS: Final = 4.0


@attrs.frozen(kw_only=True, slots=True)
class StartStage:
    """A stage that the Pod has reached; it ends with the next one."""

    since: datetime | None
    words: str


def reached(pod: Pod, unit: GPUUnit | None = None) -> tuple[StartStage, ...]:
    """Return the stages up to the present one, in order; the unit only adds to the words."""
    found = [StartStage(since=pod.metadata.creationTimestamp, words=_unscheduled(pod))]
    needs, node = _files_of(unit), pod.spec.nodeName
    for type_, words in (
        ("PodScheduled", f"preparing Pod {pod.metadata.name} on node {node}{needs}"),
        ("PodReadyToStartContainers", _pulling(pod)),
    ):
        condition = pod.condition(type_)
        if condition is not None and condition.is_true:
            found.append(StartStage(since=condition.lastTransitionTime, words=words))
    statuses = (*pod.status.initContainerStatuses, *pod.status.containerStatuses)
    if statuses and all(map(_has_started, statuses)):
        running = [each.state.running for each in statuses]
        moments = [each.startedAt for each in running if each and each.startedAt]
        found.append(StartStage(since=max(moments, default=None), words=_listening(pod, unit)))
    if (ready := pod.condition("Ready")) is not None and ready.is_true:
        words = "the Pod is ready, and its Deployment does not count it yet"
        found.append(StartStage(since=ready.lastTransitionTime, words=words))
    return tuple(found)


def is_slow(stages: tuple[StartStage, ...], now: datetime | None = None) -> bool:
    """Return whether a stage lasted for SLOW_SECONDS; without `now`, judge ended stages only."""
    moments = [each.since for each in stages if each.since is not None]
    moments += [now] if now is not None else []
    return any((end - begin).total_seconds() >= SLOW_SECONDS for begin, end in pairwise(moments))


def words_of(stages: tuple[StartStage, ...]) -> str:
    present = stages[-1]
    return f"{present.words} since {rfc3339(present.since)}" if present.since else present.words


def seconds_until_slow(stages: tuple[StartStage, ...], now: datetime) -> float | None:
    """Return after how many seconds the present stage is slow, or None if the start is already.

    A clock of the cluster that is ahead only delays the report.
    """
    since = stages[-1].since
    if since is None or is_slow(stages, now):
        return None
    return min(SLOW_SECONDS - (now - since).total_seconds(), SLOW_SECONDS)


def shows_progress(old: Pod | None, new: Pod) -> bool:
    """Return whether the words change, except in the quick progress of a start."""
    before, after = reached(old) if old else (), reached(new)
    if before and words_of(before) == words_of(after):
        return False
    return len(before) >= len(after) or is_slow(after)


def _unscheduled(pod: Pod) -> str:
    condition = pod.condition("PodScheduled")
    why = [condition.reason, condition.message] if condition and not condition.is_true else []
    return ": ".join([f"Pod {pod.metadata.name} waits for the scheduler", *filter(None, why)])


def _files_of(unit: GPUUnit | None) -> str:
    """Name the secrets with files, since the kubelet reports a missing one by an Event alone."""
    files = unit.spec.template.files if unit else ()
    names = dict.fromkeys(f"{file.secret.name}/{file.secret.key}" for file in files)
    return f", which needs the secrets {', '.join(names)}" if names else ""


def _pulling(pod: Pod) -> str:
    statuses = (*pod.status.initContainerStatuses, *pod.status.containerStatuses)
    waiting = next((each for each in statuses if not _has_started(each)), None)
    if waiting is None:
        return f"starting Pod {pod.metadata.name} on node {pod.spec.nodeName}"
    last = waiting.state.waiting.message if waiting.state.waiting else ""
    text = f"pulling image {waiting.image} on node {pod.spec.nodeName}"
    return f"{text}: {last}" if last else text


def _listening(pod: Pod, unit: GPUUnit | None) -> str:
    names = [each.name for each in pod.status.containerStatuses if not each.ready]
    port = probed_port(unit) if unit and RUNTIME_CONTAINER in names else None
    if port is not None:
        return f"container runs, port {port.port} does not take connections"
    if not names:
        return "every container is ready, and the Pod is not"
    return f"container {', '.join(names)} runs and is not ready"


def _has_started(status: ContainerStatus) -> bool:
    ended = status.state.terminated
    return status.state.running is not None or (ended is not None and not ended.exitCode)
