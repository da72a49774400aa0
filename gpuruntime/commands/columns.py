"""The columns of each view: those of its table, and what `get` shows beside them."""

import shlex
from collections.abc import Callable, Mapping
from typing import Any, Final

from gpuruntime.client.storages import FileEntry
from gpuruntime.commands.progress import moments_of
from gpuruntime.commands.values import as_json, joined, members, moment
from gpuruntime.models.kinds.phases import PoolPhase, StoragePhase, UnitPhase
from gpuruntime.models.views.flavours import FlavourView
from gpuruntime.models.views.operators import GpuProductView, Job, NodeView, SpecView
from gpuruntime.models.views.pools import PoolView
from gpuruntime.models.views.secrets import SecretView
from gpuruntime.models.views.serverless import (
    AcceptedView,
    DeadLetterView,
    FunctionView,
    InvocationSummary,
    InvocationView,
)
from gpuruntime.models.views.storages import StorageView
from gpuruntime.models.views.tickets import TicketView
from gpuruntime.models.views.units import EventView, UnitView

# Each column is a member of the view, or made from it; a moment's member, such as `createdAt`,
# shows its age.
Columns = Mapping[str, str | Callable[[Any], object]]

# The last column of tables that have it.
MESSAGE: Final = "MESSAGE"


def _phase_of(view: Any) -> str:
    """Return the phase, or what the unit becomes: its status follows a change of its spec."""
    if view.suspended and view.phase in (UnitPhase.READY, UnitPhase.PROGRESSING):
        return "Suspending"
    if not view.suspended and view.phase == UnitPhase.SUSPENDED:
        return "Resuming"
    return str(view.phase)


def _known(number: int | None) -> str:
    return "?" if number is None else str(number)


# GPUs by what holds them. A number that is not known shows as "?".
_GPU_USE: Final[Columns] = {
    "STOCK": lambda view: _known(view.gpuHeldByStock),
    "UNITS": lambda view: _known(view.gpuHeldByUnits),
    "OTHERS": lambda view: _known(view.gpuHeldByOthers),
    "FREE": lambda view: _known(view.gpuFree),
}
COLUMNS: Final[Mapping[type, Columns]] = {
    UnitView: {
        "NAME": "name",
        "SPEC": "specName",
        "PHASE": _phase_of,
        "REASON": "reason",
        # Calls reach the workers of a function through its queue.
        "ACCESS": lambda view: view.accessURL or ("serverless" if view.serverless else ""),
        "NODE": "nodeName",
        "AGE": "createdAt",
        MESSAGE: lambda view: "" if view.phase == UnitPhase.READY else view.message,
    },
    TicketView: {
        "UNIT": lambda view: f"{view.unit.name} ({view.unit.uid})",
        "USES": lambda view: ", ".join(view.uses),
        "EXPIRES": lambda view: moment(view.expiresAt),
        "GENERATION": lambda view: str(view.unit.generation),
        "TICKET": "ticket",
        "URL": "url",
        "TERMINAL": "terminalURL",
        "EXEC": "execURL",
        "FORWARD": "forwardURL",
        "SSH": lambda view: view.ssh.command if view.ssh else "",
        "COMMANDS": lambda view: "; ".join(view.commands.values()),
    },
    PoolView: {
        "NAME": "name",
        "SPEC": "specName",
        "REFILL": "refill",
        "PHASE": "phase",
        "WANTED": "replicas",
        "AVAILABLE": "available",
        "STALE": "stale",
        "CLAIMED": "claimed",
        "CONSUMED": "consumed",
        "AGE": "createdAt",
        MESSAGE: lambda view: "" if view.phase == PoolPhase.READY else view.message,
    },
    Job: {
        "OPERATION": "operationID",
        "STATUS": "status",
        "POOL": "objectName",
        "REQUESTED": "requested",
        "CREATED": "created",
        "READY": "ready",
        "CONSUMED": "consumed",
        "ERROR": "error",
        MESSAGE: lambda view: "" if view.error else view.message,
    },
    StorageView: {
        "NAME": "name",
        "SIZE": lambda view: view.capacity or view.size,
        "PHASE": "phase",
        "REASON": "reason",
        "FILES": lambda view: view.accessorStatus.phase or "off",
        "MOUNTED BY": lambda view: ",".join(view.mountedBy),
        "AGE": "createdAt",
        MESSAGE: lambda view: "" if view.phase == StoragePhase.READY else view.message,
    },
    SecretView: {
        "NAME": "name",
        "TENANT": "tenant",
        "TYPE": "type",
        "AGE": "createdAt",
        "CHANGED": "updatedAt",
    },
    FunctionView: {
        "FUNCTION": "serverlessRequestID",
        "UNIT": "unitName",
        "QUEUED": "queueDepth",
        "RUNNING": "running",
        "OLDEST": lambda view: f"{view.oldestWaitSeconds:.1f}s",
        "WORKERS": lambda view: f"{view.workers.ready}/{view.workers.desired}",
        "MOST": "maxWorkers",
        "REASON": lambda view: view.reason or ("suspended" if view.suspended else ""),
    },
    AcceptedView: {
        "INVOCATION": "invocationID",
        "FUNCTION": "serverlessRequestID",
        "KNOWN": lambda view: "already" if view.duplicate else "new",
        "ACCEPTED": "acceptedAt",
    },
    InvocationView: {
        "INVOCATION": "invocationID",
        "FUNCTION": "serverlessRequestID",
        "STATE": "state",
        "ATTEMPT": "attempt",
        "WORKER": "workerName",
        "STATUS": lambda view: view.statusCode or "",
        "WAITS FOR": lambda view: (
            joined(view.waitingFor.reason, view.waitingFor.message) if view.waitingFor else ""
        ),
        "ERROR": lambda view: joined(view.failureClass, view.error and view.error.message),
    },
    InvocationSummary: {
        "INVOCATION": "invocationID",
        "STATE": "state",
        "ATTEMPT": "attempt",
        "WORKER": "workerName",
        "STATUS": lambda view: view.statusCode or "",
        "AGE": "acceptedAt",
        "ERROR": lambda view: joined(view.failureClass, view.error),
    },
    DeadLetterView: {
        "LETTER": "deadLetterID",
        "FUNCTION": "serverlessRequestID",
        "INVOCATION": "invocationID",
        "ATTEMPTS": "attempt",
        "CLASS": "failureClass",
        "ERROR": "error",
        "AGE": "deadAt",
    },
    EventView: {
        "SEEN": "lastSeenAt",
        "TYPE": "type",
        "REASON": "reason",
        "OBJECT": lambda view: f"{view.objectKind}/{view.objectName}",
        "TIMES": "count",
        MESSAGE: "message",
    },
    FileEntry: {
        "NAME": lambda view: f"{view.name}/" if view.is_folder else view.name,
        "SIZE": lambda view: "" if view.is_folder or view.size is None else view.size,
    },
    FlavourView: {
        "SPEC": "specName",
        "CPU": "cpu",
        "MEMORY": "memory",
        "GPUS": "gpu",
        "PRODUCT": lambda view: view.gpuProduct or "any",
        "READY": lambda view: "full" if view.full else view.available,
        "UNITS": "units",
    },
    NodeView: {
        "NODE": "name",
        "READY": lambda view: "yes" if view.ready else "no",
        "PRODUCT": "gpuProduct",
        "GPUS": "gpuAllocatable",
        **_GPU_USE,
        "CPU": "cpuAllocatable",
        "MEMORY": "memoryAllocatable",
    },
    GpuProductView: {
        "PRODUCT": "product",
        "NODES": "nodes",
        "CAPACITY": "gpuCapacity",
        "GPUS": "gpuAllocatable",
        **_GPU_USE,
    },
    SpecView: {
        "SPEC": "specName",
        "AVAILABLE": "stock.available",
        "STOCK": "stock.total",
        "ACTIVE": "active.total",
        "READY": "active.ready",
        "FAILED": "active.failed",
    },
}


def _envelope(view: Any) -> str:
    product = f" ({view.gpuProduct})" if view.gpuProduct else ""
    cpu = f"cpu {view.cpu}, " if view.cpu else ""
    return f"{cpu}memory {view.memory}, gpu {view.gpu}{product}"


def _environment(view: Any) -> list[str]:
    return [
        f"{each.name} from {_secret_key(each)}" if each.secret else f"{each.name}={each.value}"
        for each in view.template.envs
    ]


def _secret_key(reference: Any) -> str:
    return f"secret {reference.secret.name}, key {reference.secret.key}"


def _generation(view: Any) -> str:
    return f"{view.generation} (observed {view.observedGeneration})"


def _primary_port(view: Any) -> str:
    ports, access = view.template.ports, view.access
    if not ports:
        return ""
    return f"{access.primaryPort or ports[0].name}, {access.scheme}, readiness {access.readiness}"


# What a unit runs, and what a pool's units will run.
_CONTENT: Final[Columns] = {
    "ENVELOPE": _envelope,
    "IMAGE": "image",
    "COMMAND": lambda view: shlex.join((*view.template.command, *view.template.args)),
    "ENV": _environment,
    "PORTS": lambda view: [
        f"{each.name} {each.port}/{each.protocol}" for each in view.template.ports
    ],
}
# What `get` shows of an object beside its columns. A row of several lines is a list.
FURTHER: Final[Mapping[type, Columns]] = {
    UnitView: {
        "NAMESPACE": "namespace",
        "LIFECYCLE": "lifecycle",
        "TENANT": "tenant",
        **_CONTENT,
        "PRIMARY PORT": _primary_port,
        "URLS": lambda view: [f"{name} {url}" for name, url in view.access.urls.items()],
        "SLUG": lambda view: view.access.slug,
        "WAKE": lambda view: "yes" if view.access.wake else "",
        "SSH KEYS": lambda view: list(view.access.sshKeys),
        "TICKETS": lambda view: (
            f"revoked before generation {view.access.generation}" if view.access.generation else ""
        ),
        "SERVICE": "serviceName",
        "FILES": lambda view: [
            f"{each.path} from {_secret_key(each)}" for each in view.template.files
        ],
        "PULL SECRETS": lambda view: ", ".join(view.imagePullSecrets),
        "MOUNTS": lambda view: [
            f"{each.name} at {each.mountPath}{' (read-only)' if each.readOnly else ''}"
            for each in view.storageMounts
        ],
        "FUNCTION": lambda view: members(view.serverless) if view.serverless else "",
        "STOCK": lambda view: (
            f"{view.sourceStock.namespace}/{view.sourceStock.name} ({view.sourceStock.uid})"
            if view.sourceStock
            else ""
        ),
        "SUSPENDED": lambda view: "yes" if view.suspended else "no",
        "REPLICAS": lambda view: f"{view.readyReplicas} ready",
        "GENERATION": _generation,
        "CREATED": lambda view: moment(view.createdAt),
        "TIMELINE": lambda view: [
            f"{moment(reached)} {word}" for word, reached in moments_of(view.timeline)
        ],
    },
    PoolView: {
        "NAMESPACE": "namespace",
        **_CONTENT,
        "PROGRESSING": "progressing",
        "FAILED": "failed",
        "SEEDED": "seeded",
        "SKIPPED": lambda view: view.skipped or "",
        "GENERATION": _generation,
        "CREATED": lambda view: moment(view.createdAt),
    },
    FunctionView: {
        "NAMESPACE": "namespace",
        "BUSY": "workers.busy",
        "DRAINING": "workers.draining",
        "LEAST": "minAvailableCount",
        "CONCURRENCY": "concurrency",
        "TIMEOUT": lambda view: f"{view.timeoutSeconds}s",
        "SUSPENDED": lambda view: "yes" if view.suspended else "no",
    },
    InvocationView: {
        "MODE": "mode",
        "SERIES": "series",
        "ACCEPTED": lambda view: moment(view.acceptedAt),
        "STARTED": lambda view: moment(view.startedAt),
        "COMPLETED": lambda view: moment(view.completedAt),
        "DEADLINE": lambda view: moment(view.deadlineAt),
        "CONTENT TYPE": "contentType",
        "HEADERS": lambda view: [f"{name}: {value}" for name, value in view.headers.items()],
        "ERROR TYPE": lambda view: view.error.type if view.error else "",
        "TRACEBACK": lambda view: view.error.traceback.splitlines() if view.error else "",
        "RESULT": lambda view: [] if view.body is None else as_json(view.body).splitlines(),
    },
}
