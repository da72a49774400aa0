"""Objects that an embedded cluster creates at its start: simulated nodes and storage classes."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final

import attrs

from gpuruntime.embedded.controllers.volume_claim_plan import DEFAULT_CLASS, PROVISIONER
from gpuruntime.embedded.kinds.cluster_objects import NODES, STORAGE_CLASSES
from gpuruntime.kube.client import Client
from gpuruntime.kube.errors import AlreadyExistsError
from gpuruntime.models.encoding.json import JsonObject, JsonValue
from gpuruntime.models.kinds.labels import GPU_PRODUCT
from gpuruntime.models.kubernetes.devices import DEVICE_CLASSES, RESOURCE_SLICES
from gpuruntime.models.kubernetes.resources import Resource
from gpuruntime.models.kubernetes.timestamps import rfc3339

STORAGE_CLASS: Final = "standard"
LATE_STORAGE_CLASS: Final = "standard-late"
DEVICE_MEMORY: Final = "80Gi"
KUBELET_VERSION: Final = "v1.34.0-simulated"


@attrs.frozen(kw_only=True, slots=True)
class DeviceOptions:
    """Devices of `resource.k8s.io` on each node, in one slice of the driver, and their class."""

    count: int
    class_name: str
    driver: str
    product: str


@attrs.frozen(kw_only=True, slots=True)
class NodeOptions:
    """Options of the nodes, named `<prefix>-<number>` from 0; without GPUs there is no product."""

    count: int = 2
    prefix: str = "node"
    cpu: str = "64"
    memory: str = "512Gi"
    pods: str = "1000"
    gpus: int = 8
    gpu_resource: str = "nvidia.com/gpu"
    devices: DeviceOptions | None = None


async def create_seed_objects(client: Client, options: NodeOptions, *, now: datetime) -> None:
    """Create the objects that do not exist yet."""
    for resource, body in _seed_objects(options, now):
        try:
            await client.create(resource, body)
        except AlreadyExistsError:
            continue


def _seed_objects(
    options: NodeOptions, now: datetime
) -> Iterator[tuple[Resource[Any], JsonObject]]:
    for number in range(options.count):
        yield NODES, node(f"{options.prefix}-{number}", options, now=now)
    if options.devices is not None:
        yield DEVICE_CLASSES, _device_class(options.devices)
        for number in range(options.count):
            name = f"{options.prefix}-{number}"
            yield RESOURCE_SLICES, device_slice(name, options.devices)
    default: JsonObject = {DEFAULT_CLASS: "true"}
    yield STORAGE_CLASSES, _storage_class(STORAGE_CLASS, "Immediate", default)
    yield STORAGE_CLASSES, _storage_class(LATE_STORAGE_CLASS, "WaitForFirstConsumer", {})


def node(name: str, options: NodeOptions, *, now: datetime) -> JsonObject:
    amounts: JsonObject = {
        "cpu": options.cpu,
        "memory": options.memory,
        "pods": options.pods,
        "ephemeral-storage": "100Ti",
    }
    labels: JsonObject = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
    }
    if options.gpus:
        amounts[options.gpu_resource] = str(options.gpus)
        labels[GPU_PRODUCT] = "NVIDIA-TEST"
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "status": {
            "capacity": amounts,
            "allocatable": amounts,
            "conditions": [_ready(now)],
            "addresses": [{"type": "Hostname", "address": name}],
            "nodeInfo": {
                "kubeletVersion": KUBELET_VERSION,
                "containerRuntimeVersion": "simulated://1",
                "osImage": "simulated",
                "operatingSystem": "linux",
                "architecture": "amd64",
            },
        },
    }


def device_slice(node_name: str, options: DeviceOptions) -> JsonObject:
    """Return the slice of the node, whose pool has the node's name as drivers of GPUs do it."""
    devices: list[JsonValue] = [
        {
            "name": f"gpu-{number}",
            "attributes": {
                "uuid": {"string": f"GPU-{node_name}-{number}"},
                "productName": {"string": options.product},
                "index": {"int": number},
            },
            "capacity": {"memory": {"value": DEVICE_MEMORY}},
        }
        for number in range(options.count)
    ]
    pool: JsonObject = {"name": node_name, "generation": 1, "resourceSliceCount": 1}
    return {
        "apiVersion": RESOURCE_SLICES.api_version,
        "kind": RESOURCE_SLICES.kind,
        "metadata": {"name": f"{node_name}-{options.driver}"},
        "spec": {
            "driver": options.driver,
            "nodeName": node_name,
            "pool": pool,
            "devices": devices,
        },
    }


def _device_class(options: DeviceOptions) -> JsonObject:
    selector: JsonObject = {"cel": {"expression": f"device.driver == '{options.driver}'"}}
    return {
        "apiVersion": DEVICE_CLASSES.api_version,
        "kind": DEVICE_CLASSES.kind,
        "metadata": {"name": options.class_name},
        "spec": {"selectors": [selector]},
    }


def _ready(now: datetime) -> JsonObject:
    return {
        "type": "Ready",
        "status": "True",
        "reason": "KubeletReady",
        "message": "this node is simulated and always ready",
        "lastHeartbeatTime": rfc3339(now),
        "lastTransitionTime": rfc3339(now),
    }


def _storage_class(name: str, binding_mode: str, annotations: JsonObject) -> JsonObject:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name, "annotations": annotations},
        "provisioner": PROVISIONER,
        "reclaimPolicy": "Delete",
        "volumeBindingMode": binding_mode,
        "allowVolumeExpansion": True,
    }
