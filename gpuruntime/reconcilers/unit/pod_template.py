"""The Pod template of a unit: its envelope, its container and its restrictions.

Requests equal limits but for ephemeral storage. No service account token is mounted, and all
rights are dropped that the user's image does not need.
"""

from typing import Final

import attrs

from gpuruntime.models.encoding.json import JsonObject
from gpuruntime.models.kinds import labels
from gpuruntime.models.kinds.templates import RUNTIME_CONTAINER, Port, PortProtocol
from gpuruntime.models.kinds.units import GPUUnit, Readiness, selector_of
from gpuruntime.models.kubernetes.quantities import Quantity, parse_quantity
from gpuruntime.reconcilers.children.pod_security import (
    container_security,
    pod_security,
    storage_security,
)
from gpuruntime.reconcilers.options import UnitOptions
from gpuruntime.reconcilers.unit.secret_references import (
    secret_mounts,
    secret_name,
    secret_volumes,
    variable,
)
from gpuruntime.reconcilers.unit.sidecar import (
    drained_first,
    grace_seconds,
    left_beside,
    shared_volumes,
    sidecar,
    socket_mount,
)

RESERVATION_IMAGE: Final = "busybox:1.36"
SLEEP: Final = ("sh", "-c", "sleep infinity")
SHARED_MEMORY: Final = "shared-memory"
HOSTNAME: Final = "kubernetes.io/hostname"


@attrs.frozen(kw_only=True, slots=True)
class Placement:
    """Members of the template that depend on the cluster, and do not count as drift."""

    priority_class: str = ""
    preferred_node: str = ""
    ends_at_once: bool = False


def pod_template(unit: GPUUnit, options: UnitOptions, placement: Placement) -> JsonObject:
    return {"metadata": {"labels": dict(labels_of(unit))}, "spec": _spec(unit, options, placement)}


def labels_of(unit: GPUUnit) -> dict[str, str]:
    given = unit.metadata.labels
    carried = {name: given[name] for name in (labels.POOL, labels.TENANT) if name in given}
    return {
        labels.APP_NAME: labels.UNIT_APP,
        labels.MANAGED_BY: labels.MANAGER,
        **selector_of(unit),
        labels.SPEC: unit.spec.specName,
        **carried,
    }


def primary_port(unit: GPUUnit) -> Port | None:
    ports = unit.spec.template.ports
    name = unit.spec.access.primaryPort
    return next((port for port in ports if port.name == name or not name), None)


def probed_port(unit: GPUUnit) -> Port | None:
    """Return the port that an active unit's container has to listen on before it is ready."""
    port = primary_port(unit)
    asks = unit.spec.access.readiness == Readiness.TCP
    return port if port is not None and asks and port.protocol == PortProtocol.TCP else None


def has_worker(unit: GPUUnit, options: UnitOptions) -> bool:
    """Return whether the Pod contains a worker; the Pod of a stock unit never does."""
    return unit.spec.is_function_worker and unit.metadata.namespace != options.stock_namespace


def _spec(unit: GPUUnit, options: UnitOptions, placement: Placement) -> JsonObject:
    defaults = options.pod_defaults
    is_worker = has_worker(unit, options)
    optional: JsonObject = {
        "priorityClassName": placement.priority_class,
        "terminationGracePeriodSeconds": _grace_seconds(unit, options, placement),
        "initContainers": [sidecar(unit, options)] if is_worker else [],
        "imagePullSecrets": _pull_secrets(unit, options),
        "tolerations": list(defaults.tolerations),
        "nodeSelector": _node_selector(unit, options),
        "runtimeClassName": defaults.runtime_class,
        "affinity": _affinity(placement.preferred_node),
    }
    return {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": _pod_security(unit, options),
        "containers": [_container(unit, options)],
        "volumes": [
            _shared_memory(unit, options),
            *_storage_volumes(unit),
            *secret_volumes(unit),
            *(shared_volumes(unit) if is_worker else []),
        ],
        **_present(optional),
    }


def _grace_seconds(unit: GPUUnit, options: UnitOptions, placement: Placement) -> int | None:
    if placement.ends_at_once:
        return 0
    return grace_seconds(options.sidecar) if has_worker(unit, options) else None


def _container(unit: GPUUnit, options: UnitOptions) -> JsonObject:
    template = unit.spec.template
    runs_nothing = not (unit.spec.image or template.command or template.args)
    optional: JsonObject = {
        "command": list(SLEEP if runs_nothing else template.command),
        "args": list(template.args),
        "ports": [_container_port(port) for port in template.ports],
        "readinessProbe": _readiness_probe(unit, options),
        "lifecycle": drained_first(unit) if has_worker(unit, options) else {},
    }
    return {
        "name": RUNTIME_CONTAINER,
        "image": unit.spec.image or RESERVATION_IMAGE,
        "env": [*_platform_env(unit, options), *_caller_env(unit)],
        "resources": _resources(unit, options),
        "securityContext": container_security(),
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [
            {"name": SHARED_MEMORY, "mountPath": "/dev/shm"},  # noqa: S108 - in the Pod
            *_storage_mounts(unit),
            *secret_mounts(unit),
            *([socket_mount(unit)] if has_worker(unit, options) else []),
        ],
        **_present(optional),
    }


def _platform_env(unit: GPUUnit, options: UnitOptions) -> list[JsonObject]:
    values = {
        "SPEC_NAME": unit.spec.specName,
        "UNIT_NAME": unit.metadata.name,
        "GPU_COUNT": str(unit.spec.gpu),
        "MEMORY_LIMIT": _memory(unit, options),
    }
    return [{"name": name, "value": value} for name, value in values.items()]


def _caller_env(unit: GPUUnit) -> list[JsonObject]:
    return [variable(unit, env) for env in unit.spec.template.envs]


def _pull_secrets(unit: GPUUnit, options: UnitOptions) -> list[JsonObject]:
    own = (secret_name(unit, name) for name in unit.spec.imagePullSecrets)
    names = dict.fromkeys((*options.pod_defaults.image_pull_secrets, *own))
    return [{"name": name} for name in names]


def _container_port(port: Port) -> JsonObject:
    return {"name": port.name, "containerPort": port.port, "protocol": port.protocol}


def _readiness_probe(unit: GPUUnit, options: UnitOptions) -> JsonObject:
    """Return a TCP probe of the primary port, or nothing for stock, which serves no requests."""
    port = probed_port(unit)
    if port is None or unit.metadata.namespace == options.stock_namespace:
        return {}
    return {"tcpSocket": {"port": port.port}, "periodSeconds": 2, "failureThreshold": 3}


def _resources(unit: GPUUnit, options: UnitOptions) -> JsonObject:
    devices: JsonObject = {options.gpu_resource: str(unit.spec.gpu)} if unit.spec.gpu else {}
    cpu = unit.spec.cpu or options.pod_defaults.cpu
    scratch, reserved = options.pod_defaults.ephemeral_storage, _reserved_scratch(options)
    beside = options.sidecar
    if has_worker(unit, options):
        cpu = left_beside(cpu, beside.cpu)
        scratch = left_beside(scratch, beside.ephemeral_storage)
        reserved = left_beside(reserved, beside.ephemeral_storage)
    envelope: JsonObject = {"cpu": cpu, "memory": _memory(unit, options), **devices}
    return {
        "requests": {**envelope, "ephemeral-storage": reserved},
        "limits": {**envelope, "ephemeral-storage": scratch},
    }


def _reserved_scratch(options: UnitOptions) -> str:
    """Return the request of ephemeral storage, which may not exceed the limit."""
    defaults = options.pod_defaults
    given = (defaults.ephemeral_storage_request, defaults.ephemeral_storage)
    return min(given, key=lambda each: parse_quantity(each).nanos)


def _memory(unit: GPUUnit, options: UnitOptions) -> str:
    memory = unit.spec.memory or options.pod_defaults.memory
    is_alone = not has_worker(unit, options)
    return memory if is_alone else left_beside(memory, options.sidecar.memory)


def _half_of_memory(unit: GPUUnit, options: UnitOptions) -> str:
    return str(Quantity.of_bytes(parse_quantity(_memory(unit, options)).rounded_up // 2))


def _node_selector(unit: GPUUnit, options: UnitOptions) -> JsonObject:
    product: JsonObject = (
        {labels.GPU_PRODUCT: unit.spec.gpuProduct} if unit.spec.gpuProduct else {}
    )
    return {**options.pod_defaults.node_selector, **product}


def _affinity(node: str) -> JsonObject:
    if not node:
        return {}
    term: JsonObject = {"key": HOSTNAME, "operator": "In", "values": [node]}
    preference: JsonObject = {"weight": 100, "preference": {"matchExpressions": [term]}}
    return {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [preference]}}


def _pod_security(unit: GPUUnit, options: UnitOptions) -> JsonObject:
    shared = storage_security() if unit.spec.storageMounts else {}
    return {**pod_security(is_restricted=options.is_restricted), **shared}


def _shared_memory(unit: GPUUnit, options: UnitOptions) -> JsonObject:
    size = _half_of_memory(unit, options)
    return {"name": SHARED_MEMORY, "emptyDir": {"medium": "Memory", "sizeLimit": size}}


def _storage_volumes(unit: GPUUnit) -> list[JsonObject]:
    """Name the volumes by their index, because a storage's name with a prefix may be too long."""
    return [
        {"name": f"storage-{index}", "persistentVolumeClaim": {"claimName": mount.name}}
        for index, mount in enumerate(unit.spec.storageMounts)
    ]


def _storage_mounts(unit: GPUUnit) -> list[JsonObject]:
    return [
        {
            "name": f"storage-{index}",
            "mountPath": mount.mountPath,
            **({"readOnly": True} if mount.readOnly else {}),
        }
        for index, mount in enumerate(unit.spec.storageMounts)
    ]


def _present(members: JsonObject) -> JsonObject:
    """Drop empty members as the API server does, so that they do not count as drift."""
    return {name: value for name, value in members.items() if value not in ("", None, [], {})}
