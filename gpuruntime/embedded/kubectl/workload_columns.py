"""Columns of `kubectl get` for Deployments, ReplicaSets and Jobs."""

from datetime import datetime
from typing import Any, Final

from gpuruntime.embedded.apiserver.documents import Document
from gpuruntime.embedded.kubectl.columns import (
    AGE,
    NAME,
    Column,
    Printer,
    age_of,
    containers_text,
    has_condition,
    human_duration,
    selector_text,
    wide,
)

WIDE: Final = (wide("Containers"), wide("Images"), wide("Selector"))
# The first that holds is shown; if none does, the Job runs.
JOB_STATES: Final = ("Complete", "Failed", "Terminating", "Suspended", "FailureTarget")


def _wide_cells(document: Document) -> tuple[str, str, str]:
    spec = document["spec"]
    return (*containers_text(spec["template"]["spec"]), selector_text(spec.get("selector")))


def _deployment_cells(document: Document, now: datetime) -> list[Any]:
    spec, status = document["spec"], document.get("status", {})
    return [
        document["metadata"]["name"],
        f"{status.get('readyReplicas', 0)}/{spec['replicas']}",
        status.get("updatedReplicas", 0),
        status.get("availableReplicas", 0),
        age_of(document, now),
        *_wide_cells(document),
    ]


def _replica_set_cells(document: Document, now: datetime) -> list[Any]:
    status = document.get("status", {})
    return [
        document["metadata"]["name"],
        document["spec"]["replicas"],
        status.get("replicas", 0),
        status.get("readyReplicas", 0),
        age_of(document, now),
        *_wide_cells(document),
    ]


def _job_cells(document: Document, now: datetime) -> list[Any]:
    spec, succeeded = document["spec"], document.get("status", {}).get("succeeded", 0)
    wanted = spec.get("completions")
    if wanted is None:
        parallelism = spec.get("parallelism", 0)
        wanted = f"1 of {parallelism}" if parallelism > 1 else "1"
    return [
        document["metadata"]["name"],
        _job_state(document),
        f"{succeeded}/{wanted}",
        _job_duration(document.get("status", {}), now),
        age_of(document, now),
        *_wide_cells(document),
    ]


def _job_state(document: Document) -> str:
    status = document.get("status", {})
    for state in JOB_STATES:
        is_leaving = state == "Terminating" and "deletionTimestamp" in document["metadata"]
        if is_leaving or has_condition(status, state):
            return state
    return "Running"


def _job_duration(status: Document, now: datetime) -> str:
    begun, ended = status.get("startTime"), status.get("completionTime")
    if not begun:
        return ""
    end = datetime.fromisoformat(ended) if ended else now
    return human_duration((end - datetime.fromisoformat(begun)).total_seconds())


DEPLOYMENTS: Final = Printer(
    (NAME, Column("Ready"), Column("Up-to-date"), Column("Available"), AGE, *WIDE),
    _deployment_cells,
)
REPLICA_SETS: Final = Printer(
    (
        NAME,
        Column("Desired", "integer"),
        Column("Current", "integer"),
        Column("Ready", "integer"),
        AGE,
        *WIDE,
    ),
    _replica_set_cells,
)
JOBS: Final = Printer(
    (NAME, Column("Status"), Column("Completions"), Column("Duration"), AGE, *WIDE), _job_cells
)
