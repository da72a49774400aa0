"""Builders of objects for the controllers' tests; each test adds only what it is about."""

from datetime import UTC, datetime
from typing import Any, TypeVar

from gpuruntime.embedded.kinds.cluster_objects import Claim, Node, PersistentVolume, StorageClass
from gpuruntime.embedded.kinds.pod_objects import Pod
from gpuruntime.embedded.kinds.workload_objects import Deployment, Job, ReplicaSet
from gpuruntime.models.encoding import codec

T = TypeVar("T")

MOMENT = datetime(2025, 1, 1, tzinfo=UTC)
TEMPLATE: dict[str, Any] = {
    "metadata": {"labels": {"app": "web"}},
    "spec": {"containers": [{"name": "c", "image": "busybox:1.36"}]},
}


def _made(model: type[T], name: str, members: dict[str, Any]) -> T:
    metadata = {"name": name, "namespace": "default", "uid": f"uid-{name}", "generation": 1}
    document = {**members, "metadata": {**metadata, **members.get("metadata", {})}}
    return codec.decode(codec.encode(document), model)


def deployment(name: str = "web", *, status: Any = None, **spec: Any) -> Deployment:
    filled = {"selector": {"matchLabels": {"app": "web"}}, "template": TEMPLATE, **spec}
    return _made(Deployment, name, {"spec": filled, "status": status or {}})


def replica_set(name: str, *, metadata: Any = None, status: Any = None, **spec: Any) -> ReplicaSet:
    filled = {"template": TEMPLATE, **spec}
    members = {"spec": filled, "status": status or {}, "metadata": metadata or {}}
    return _made(ReplicaSet, name, members)


def job(name: str = "work", *, metadata: Any = None, status: Any = None, **spec: Any) -> Job:
    filled = {"template": TEMPLATE, "completions": 1, **spec}
    members = {"spec": filled, "status": status or {}, "metadata": metadata or {}}
    return _made(Job, name, members)


def pod(name: str = "p", *, metadata: Any = None, status: Any = None, **spec: Any) -> Pod:
    filled = {"containers": [{"name": "c", "image": "busybox:1.36"}], **spec}
    members = {"spec": filled, "status": status or {}, "metadata": metadata or {}}
    return _made(Pod, name, members)


def node(name: str, *, labels: Any = None, spec: Any = None, **allocatable: str) -> Node:
    amounts = {"cpu": "8", "memory": "32Gi", "pods": "110", **allocatable}
    members = {
        "metadata": {
            "namespace": "",
            "labels": {"kubernetes.io/hostname": name, **(labels or {})},
        },
        "spec": spec or {},
        "status": {
            "allocatable": {name.replace("_", "/"): text for name, text in amounts.items()},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }
    return _made(Node, name, members)


def claim(name: str = "data", *, metadata: Any = None, status: Any = None, **spec: Any) -> Claim:
    filled = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
        **spec,
    }
    members = {"spec": filled, "status": status or {}, "metadata": metadata or {}}
    return _made(Claim, name, members)


def volume(
    name: str, *, size: str = "1Gi", metadata: Any = None, phase: str = "Available", **spec: Any
) -> PersistentVolume:
    filled = {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": size}, **spec}
    described = {"namespace": "", **(metadata or {})}
    members = {"spec": filled, "status": {"phase": phase}, "metadata": described}
    return _made(PersistentVolume, name, members)


def storage_class(name: str, *, metadata: Any = None, **members: Any) -> StorageClass:
    filled = {"provisioner": "kubernetes.io/host-path", **members}
    return _made(StorageClass, name, {**filled, "metadata": {"namespace": "", **(metadata or {})}})
