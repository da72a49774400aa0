"""Builders of the objects that the tests write, as small as a server accepts them."""

from typing import Any

from gpuruntime.models.kubernetes.metadata import PartialObject
from gpuruntime.models.kubernetes.resources import Resource

Document = dict[str, Any]


def resource(
    kind: str, plural: str, *, group: str = "", version: str = "v1", is_namespaced: bool = True
) -> Resource[PartialObject]:
    return Resource(
        group=group,
        version=version,
        kind=kind,
        plural=plural,
        type=PartialObject,
        is_namespaced=is_namespaced,
    )


CONFIG_MAPS = resource("ConfigMap", "configmaps")
DEFINITIONS = resource(
    "CustomResourceDefinition",
    "customresourcedefinitions",
    group="apiextensions.k8s.io",
    is_namespaced=False,
)
DEPLOYMENTS = resource("Deployment", "deployments", group="apps")
DEVICE_CLASSES = resource(
    "DeviceClass", "deviceclasses", group="resource.k8s.io", is_namespaced=False
)
DEVICE_CLAIMS = resource("ResourceClaim", "resourceclaims", group="resource.k8s.io")
DEVICE_CLAIM_TEMPLATES = resource(
    "ResourceClaimTemplate", "resourceclaimtemplates", group="resource.k8s.io"
)
DEVICE_SLICES = resource(
    "ResourceSlice", "resourceslices", group="resource.k8s.io", is_namespaced=False
)
EVENTS = resource("Event", "events")
JOBS = resource("Job", "jobs", group="batch")
LEASES = resource("Lease", "leases", group="coordination.k8s.io")
NAMESPACES = resource("Namespace", "namespaces", is_namespaced=False)
NETWORK_POLICIES = resource("NetworkPolicy", "networkpolicies", group="networking.k8s.io")
NODES = resource("Node", "nodes", is_namespaced=False)
PODS = resource("Pod", "pods")
PRIORITY_CLASSES = resource(
    "PriorityClass", "priorityclasses", group="scheduling.k8s.io", is_namespaced=False
)
REPLICA_SETS = resource("ReplicaSet", "replicasets", group="apps")
SECRETS = resource("Secret", "secrets")
SERVICES = resource("Service", "services")
STORAGE_CLASSES = resource(
    "StorageClass", "storageclasses", group="storage.k8s.io", is_namespaced=False
)
VOLUMES = resource("PersistentVolume", "persistentvolumes", is_namespaced=False)
VOLUME_CLAIMS = resource("PersistentVolumeClaim", "persistentvolumeclaims")
WIDGETS = resource("Widget", "widgets", group="conformance.example.com")
GADGETS = resource("Gadget", "gadgets", group="conformance.example.com", is_namespaced=False)


def named(of: Resource[PartialObject], name: str, **members: Any) -> Document:
    """Return an object; `metadata` among the members is added to the name."""
    metadata = {"name": name, **members.pop("metadata", {})}
    return {"apiVersion": of.api_version, "kind": of.kind, "metadata": metadata, **members}


def config_map(name: str, data: dict[str, str] | None = None, **metadata: Any) -> Document:
    members = {"data": data} if data else {}
    return named(CONFIG_MAPS, name, metadata=metadata, **members)


def owner(document: Document, **members: Any) -> Document:
    """Return a reference to this object."""
    return {
        "apiVersion": document["apiVersion"],
        "kind": document["kind"],
        "name": document["metadata"]["name"],
        "uid": document["metadata"]["uid"],
        **members,
    }


def pod_spec(*, gpus: int = 0, **members: Any) -> Document:
    container: Document = {"name": "main", "image": "example.com/main:1"}
    if gpus:
        container["resources"] = {"limits": {"nvidia.com/gpu": str(gpus)}}
    return {"containers": [container], **members}


def pod(name: str, *, metadata: Document | None = None, gpus: int = 0, **spec: Any) -> Document:
    return named(PODS, name, metadata=metadata or {}, spec=pod_spec(gpus=gpus, **spec))


def deployment(name: str, *, replicas: int = 1, **spec: Any) -> Document:
    labels = {"app": name}
    template = spec.pop("template", pod_spec())
    return named(
        DEPLOYMENTS,
        name,
        spec={
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": template},
            **spec,
        },
    )


def job(name: str, *, template: Document | None = None, **spec: Any) -> Document:
    pods = pod_spec(**{"restartPolicy": "Never", **(template or {})})
    return named(JOBS, name, spec={"template": {"spec": pods}, **spec})


def device_class(name: str, driver: str) -> Document:
    selector = {"cel": {"expression": f"device.driver == '{driver}'"}}
    return named(DEVICE_CLASSES, name, spec={"selectors": [selector]})


def device_spec(class_name: str, *, selectors: tuple[str, ...] = (), **exactly: Any) -> Document:
    """Return the spec of a claim with one request, `gpu`."""
    exactly = {"deviceClassName": class_name, **exactly}
    if selectors:
        exactly["selectors"] = [{"cel": {"expression": each}} for each in selectors]
    return {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}


def device_claim(name: str, class_name: str, **exactly: Any) -> Document:
    return named(DEVICE_CLAIMS, name, spec=device_spec(class_name, **exactly))


def device(name: str, **members: Any) -> Document:
    attributes = {"uuid": {"string": f"GPU-{name}"}, "index": {"int": int(name[-1])}}
    capacity = {"memory": {"value": "80Gi"}}
    return {"name": name, "attributes": attributes, "capacity": capacity, **members}


def device_slice(name: str, driver: str, node_name: str, *, count: int, **pool: int) -> Document:
    """Return a slice with the devices `gpu-0` and so on, in the node's own pool."""
    return named(
        DEVICE_SLICES,
        name,
        spec={
            "driver": driver,
            "nodeName": node_name,
            "pool": {"name": node_name, "generation": 1, "resourceSliceCount": 1, **pool},
            "devices": [device(f"gpu-{number}") for number in range(count)],
        },
    )


def node(name: str, *, gpus: int, cpu: str = "8") -> Document:
    """Return a node that only Pods with its name and toleration can use."""
    size = {"cpu": cpu, "memory": "64Gi", "pods": "20", "nvidia.com/gpu": str(gpus)}
    return named(
        NODES,
        name,
        metadata={"labels": {"kubernetes.io/hostname": name}},
        spec={"taints": [{"key": "conformance", "effect": "NoSchedule"}]},
        status={
            "allocatable": size,
            "capacity": size,
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
        },
    )


def on(node_name: str) -> Document:
    """Return the members of a Pod's spec that send it to this node only."""
    return {
        "nodeSelector": {"kubernetes.io/hostname": node_name},
        "tolerations": [{"key": "conformance", "operator": "Exists"}],
    }
