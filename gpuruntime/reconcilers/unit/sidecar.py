"""The worker in the Pod of a function: a container beside the user's, and what the two share.

It starts before the user's container and ends after it. What it is told and how it logs in at the
broker is mounted into it alone; the folder of the socket is all that both see, and it is seen by
the worker at a place of its own, so that the user's path covers nothing of the product's image.
"""

from itertools import count
from math import ceil
from pathlib import PurePosixPath
from typing import Final

import attrs

from gpuruntime.models.encoding.json import JsonObject
from gpuruntime.models.kinds.units import GPUUnit, child_key
from gpuruntime.models.kubernetes.quantities import parse_quantity
from gpuruntime.reconcilers.children.pod_security import container_security
from gpuruntime.reconcilers.options import SidecarOptions, UnitOptions

SIDECAR: Final = "worker"
SETTINGS_VOLUME: Final = "worker-settings"
SETTINGS_FOLDER: Final = "/etc/gpuruntime"
SETTINGS_FILE: Final = "worker.yaml"
SOCKET_VOLUME: Final = "framework-socket"
# As short as a folder can be: whatever path the user chose, the kernel takes the worker's too.
SOCKET_FOLDER: Final = "/w"
# Off the beaten track, because both containers have one set of ports.
FIRST_PORT: Final = 28_081
# What is left of the worker's own grace to give back what it could not end.
GIVE_BACK_SECONDS: Final = 2.0
# After the drain, for the containers to end.
END_SECONDS: Final = 10
READABLE: Final = 0o444


def sidecar(unit: GPUUnit, options: UnitOptions) -> JsonObject:
    port = operations_port(unit)
    given = options.sidecar
    kept: JsonObject = {"memory": given.memory, "ephemeral-storage": given.ephemeral_storage}
    return {
        "name": SIDECAR,
        "image": given.image,
        "args": ["worker", "--config", f"{SETTINGS_FOLDER}/{SETTINGS_FILE}"],
        "restartPolicy": "Always",
        "resources": {
            "requests": {"cpu": given.cpu, **kept},
            "limits": {"cpu": given.cpu_limit, **kept},
        },
        "securityContext": _security(options),
        "startupProbe": _probe("/healthz", port, period=1, failures=60),
        "livenessProbe": _probe("/healthz", port, period=10, failures=3),
        "readinessProbe": _probe("/readyz", port, period=2, failures=2),
        "lifecycle": drained_first(unit),
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [
            {"name": SETTINGS_VOLUME, "mountPath": SETTINGS_FOLDER, "readOnly": True},
            {"name": SOCKET_VOLUME, "mountPath": SOCKET_FOLDER},
        ],
    }


def drained_first(unit: GPUUnit) -> JsonObject:
    """For both containers: a worker would get its signal only after the user's has ended."""
    return {"preStop": {"httpGet": {"path": "/drain", "port": operations_port(unit)}}}


def shared_volumes(unit: GPUUnit) -> list[JsonObject]:
    """A fresh emptyDir is open to every user there is."""
    settings: JsonObject = {"secretName": child_key(unit).name, "defaultMode": READABLE}
    return [
        {"name": SETTINGS_VOLUME, "secret": settings},
        {"name": SOCKET_VOLUME, "emptyDir": {}},
    ]


def socket_mount(unit: GPUUnit) -> JsonObject:
    """Where the user's container has the folder of its socket."""
    return {"name": SOCKET_VOLUME, "mountPath": str(_socket_path(unit).parent)}


def socket_of_worker(unit: GPUUnit) -> str:
    return f"{SOCKET_FOLDER}/{_socket_path(unit).name}"


def operations_port(unit: GPUUnit) -> int:
    """The first that the user's container does not declare."""
    taken = {port.port for port in unit.spec.template.ports}
    return next(port for port in count(FIRST_PORT) if port not in taken)


def grace_seconds(options: SidecarOptions) -> int:
    """Of the Pod: for the drain, and for both containers to end after it."""
    return ceil(options.drain_seconds + GIVE_BACK_SECONDS) + END_SECONDS


def left_beside(envelope: str, share: str) -> str:
    """What the user's container gets, so that both fit the seat that the stock has held.

    Where that would be less than half, the worker comes on top.
    """
    whole, part = parse_quantity(envelope), parse_quantity(share)
    if whole.nanos < 2 * part.nanos:
        return envelope
    return str(attrs.evolve(whole, nanos=whole.nanos - part.nanos))


def _socket_path(unit: GPUUnit) -> PurePosixPath:
    function = unit.spec.serverless
    return PurePosixPath(function.framework.socketPath if function else "")


def _security(options: UnitOptions) -> JsonObject:
    """Whoever made the socket, the worker may speak to it.

    A socket lets in nobody but its maker unless that says so. At the restricted level both
    containers run as one user; at the baseline level, where the image chooses the user, the worker
    is one that files do not refuse, and has nothing else of root's.
    """
    held = container_security(is_read_only=True)
    if options.is_restricted:
        return held
    capabilities: JsonObject = {"drop": ["ALL"], "add": ["DAC_OVERRIDE"]}
    return {**held, "runAsUser": 0, "capabilities": capabilities}


def _probe(path: str, port: int, *, period: int, failures: int) -> JsonObject:
    return {
        "httpGet": {"path": path, "port": port},
        "periodSeconds": period,
        "timeoutSeconds": 2,
        "failureThreshold": failures,
    }
