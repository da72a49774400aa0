"""The worker container in the Pod of a function, and the volumes that it shares.

It starts before the user's container and ends after it. Its settings and its broker login are
mounted into it alone. Both containers mount the socket's folder, the worker at a path of its own,
so that the user's path hides nothing in the worker's image.
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
# The path is short so that the worker's socket path fits the kernel's limit whenever the user's
# does.
SOCKET_FOLDER: Final = "/w"
# Both containers share one set of ports, so the worker begins at one that users rarely choose.
FIRST_PORT: Final = 28_081
# Seconds of the worker's grace in which it gives back the calls that it could not finish.
GIVE_BACK_SECONDS: Final = 2.0
# Seconds for the containers to end after the drain.
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
    """Return a preStop hook for both containers that drains the worker first.

    The worker receives SIGTERM only after the user's container has ended, which is too late.
    """
    return {"preStop": {"httpGet": {"path": "/drain", "port": operations_port(unit)}}}


def shared_volumes(unit: GPUUnit) -> list[JsonObject]:
    """Return the worker's volumes. Every user may write to a new emptyDir."""
    settings: JsonObject = {"secretName": child_key(unit).name, "defaultMode": READABLE}
    return [
        {"name": SETTINGS_VOLUME, "secret": settings},
        {"name": SOCKET_VOLUME, "emptyDir": {}},
    ]


def socket_mount(unit: GPUUnit) -> JsonObject:
    """Return the mount of the socket's folder in the user's container."""
    return {"name": SOCKET_VOLUME, "mountPath": str(_socket_path(unit).parent)}


def socket_of_worker(unit: GPUUnit) -> str:
    return f"{SOCKET_FOLDER}/{_socket_path(unit).name}"


def operations_port(unit: GPUUnit) -> int:
    """Return the first port that the user's container does not declare."""
    taken = {port.port for port in unit.spec.template.ports}
    return next(port for port in count(FIRST_PORT) if port not in taken)


def grace_seconds(options: SidecarOptions) -> int:
    """Return the Pod's grace period: the drain, then the end of both containers."""
    return ceil(options.drain_seconds + GIVE_BACK_SECONDS) + END_SECONDS


def left_beside(envelope: str, share: str) -> str:
    """Return the user container's part of the envelope, so that both fit the stock's place.

    If that would be less than half, the worker's share is added on top of the envelope.
    """
    whole, part = parse_quantity(envelope), parse_quantity(share)
    if whole.nanos < 2 * part.nanos:
        return envelope
    return str(attrs.evolve(whole, nanos=whole.nanos - part.nanos))


def _socket_path(unit: GPUUnit) -> PurePosixPath:
    function = unit.spec.serverless
    return PurePosixPath(function.framework.socketPath if function else "")


def _security(options: UnitOptions) -> JsonObject:
    """Return a security context in which the worker may connect to the user's socket.

    By default only the creator of a socket may connect to it. At the restricted level, both
    containers run as one user. At the baseline level the image chooses the user, so the worker
    runs as root, with DAC_OVERRIDE as its only capability.
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
