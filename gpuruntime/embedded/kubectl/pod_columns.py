"""Columns of `kubectl get pods`, including the word for a Pod's status."""

from datetime import datetime
from typing import Any, Final

from gpuruntime.embedded.apiserver.documents import Document
from gpuruntime.embedded.kubectl.columns import (
    AGE,
    NAME,
    NONE,
    Column,
    Printer,
    age,
    age_of,
    dig,
    has_condition,
    wide,
)

UNREACHABLE: Final = "NodeLost"
GATED: Final = "SchedulingGated"


def _cells(document: Document, now: datetime) -> list[Any]:
    spec, status = document["spec"], document.get("status", {})
    containers = status.get("containerStatuses") or []
    gates = spec.get("readinessGates") or []
    open_gates = sum(has_condition(status, gate["conditionType"]) for gate in gates)
    running = [each for each in containers if _is_running(each)]
    return [
        document["metadata"]["name"],
        f"{len(running)}/{len(spec['containers'])}",
        status_word(document),
        _restarts(containers, now),
        age_of(document, now),
        status.get("podIP") or NONE,
        spec.get("nodeName") or NONE,
        status.get("nominatedNodeName") or NONE,
        f"{open_gates}/{len(gates)}" if gates else NONE,
    ]


PODS: Final = Printer(
    columns=(
        NAME,
        Column("Ready"),
        Column("Status"),
        Column("Restarts"),
        AGE,
        wide("IP"),
        wide("Node"),
        wide("Nominated Node"),
        wide("Readiness Gates"),
    ),
    cells=_cells,
)


def status_word(document: Document) -> str:
    """Return the most specific reason: an init container's, a container's, or the phase."""
    status = document.get("status", {})
    word = status.get("reason") or status.get("phase") or ""
    conditions = status.get("conditions") or ()
    if any(each.get("reason") == GATED for each in conditions):
        word = GATED
    initializing = _init_word(document)
    if initializing and not has_condition(status, "Initialized"):
        word = initializing
    else:
        word = _container_word(status, word)
    if "deletionTimestamp" not in document["metadata"]:
        return word
    if status.get("reason") == UNREACHABLE:
        return "Unknown"
    return word if status.get("phase") in ("Failed", "Succeeded") else "Terminating"


def _init_word(document: Document) -> str:
    count = len(document["spec"].get("initContainers") or ())
    for index, each in enumerate(document.get("status", {}).get("initContainerStatuses") or ()):
        state = each.get("state", {})
        terminated, waiting = state.get("terminated"), state.get("waiting", {}).get("reason")
        if terminated is not None:
            if terminated["exitCode"]:
                return f"Init:{_ending(terminated)}"
        elif waiting and waiting != "PodInitializing":
            return f"Init:{waiting}"
        else:
            return f"Init:{index}/{count}"
    return ""


def _container_word(status: Document, word: str) -> str:
    statuses = status.get("containerStatuses") or []
    for each in reversed(statuses):
        waiting = dig(each, "state", "waiting", "reason")
        terminated = dig(each, "state", "terminated")
        if waiting:
            word = waiting
        elif terminated is not None:
            word = _ending(terminated)
    if word == "Completed" and any(map(_is_running, statuses)):
        return "Running" if has_condition(status, "Ready") else "NotReady"
    return word


def _ending(terminated: Document) -> str:
    if terminated.get("reason"):
        return str(terminated["reason"])
    if terminated.get("signal"):
        return f"Signal:{terminated['signal']}"
    return f"ExitCode:{terminated['exitCode']}"


def _is_running(container: Document) -> bool:
    return bool(container.get("ready")) and dig(container, "state", "running") is not None


def _restarts(containers: list[Document], now: datetime) -> str:
    count = sum(each.get("restartCount", 0) for each in containers)
    ends = [dig(each, "lastState", "terminated", "finishedAt") for each in containers]
    latest = max((end for end in ends if end), default=None)
    return f"{count} ({age(latest, now)} ago)" if count and latest else str(count)
