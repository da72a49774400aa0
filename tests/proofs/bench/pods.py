"""Pods as a large cluster serves them: about 3.9 KB each on the wire, a third managedFields."""

from collections.abc import Iterator

import attrs
import msgspec

from gpuruntime.models.encoding import codec
from gpuruntime.models.encoding.json import JsonObject
from gpuruntime.models.kubernetes.metadata import ObjectMeta
from gpuruntime.models.kubernetes.resources import Resource

NAMESPACES = 20
PODS_OF_A_DEPLOYMENT = 5
NODES = 500
MOMENT = "2025-11-18T12:47:31Z"
LABELS = (
    "app.kubernetes.io/managed-by",
    "app.kubernetes.io/name",
    "pod-template-hash",
    "runtime.lokiwager.io/spec",
    "runtime.lokiwager.io/unit",
)
CONDITIONS = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady")
CONTAINER_FIELDS = ("f:args", "f:command", "f:env", "f:image", "f:name", "f:ports", "f:resources")
CONDITION_FIELDS = ("f:lastTransitionTime", "f:status", "f:type")
SPEC_FIELDS = ("f:dnsPolicy", "f:priorityClassName", "f:restartPolicy", "f:volumes")


@attrs.frozen(kw_only=True, slots=True)
class PodSpec:
    """Containers and volumes are only ever compared."""

    nodeName: str = ""
    containers: msgspec.Raw = msgspec.Raw()
    volumes: msgspec.Raw = msgspec.Raw()


@attrs.frozen(kw_only=True, slots=True)
class Condition:
    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""


@attrs.frozen(kw_only=True, slots=True)
class ContainerStatus:
    name: str = ""
    ready: bool = False
    restartCount: int = 0
    state: msgspec.Raw = msgspec.Raw()


@attrs.frozen(kw_only=True, slots=True)
class PodStatus:
    phase: str = ""
    conditions: tuple[Condition, ...] = ()
    containerStatuses: tuple[ContainerStatus, ...] = ()


@attrs.frozen(kw_only=True, slots=True)
class Pod:
    metadata: ObjectMeta = attrs.field(factory=ObjectMeta)
    spec: PodSpec = attrs.field(factory=PodSpec)
    status: PodStatus = attrs.field(factory=PodStatus)


PODS = Resource(group="", version="v1", kind="Pod", plural="pods", type=Pod)


def pod_uid(index: int) -> str:
    return f"{index:08x}-5f3c-4b7e-9d2a-{index * 2_654_435_761 % 2**48:012x}"


def pod_json(index: int, version: int = 1) -> JsonObject:
    """The same index is the same Pod; the version is also what its message says."""
    owner = index // PODS_OF_A_DEPLOYMENT
    namespace, app = f"tenant-{owner % NAMESPACES}", f"unit-{owner:05d}"
    name = f"{app}-7c9d8b6f54-{index:05x}"
    labels = ("gpuruntime", "gpuruntime-unit", "7c9d8b6f54", f"g{index % 4}.1", app)
    return {
        "metadata": {
            "name": name,
            "generateName": f"{app}-7c9d8b6f54-",
            "namespace": namespace,
            "uid": pod_uid(index),
            "resourceVersion": str(version),
            "generation": 1,
            "creationTimestamp": MOMENT,
            "labels": dict(zip(LABELS, labels, strict=True)),
            "ownerReferences": [
                {
                    "apiVersion": "apps/v1",
                    "kind": "ReplicaSet",
                    "name": f"{app}-7c9d8b6f54",
                    "uid": pod_uid(owner),
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
            "managedFields": _managed_fields(pod_uid(owner)),
        },
        "spec": _spec(app, node=f"node-{index % NODES:04d}"),
        "status": _status(index, version),
    }


def _managed_fields(owner_uid: str) -> list[JsonObject]:
    """One entry of the controller's and one of the kubelet's, as every running Pod has them."""
    container: JsonObject = {name: {} for name in (".", *CONTAINER_FIELDS)}
    condition: JsonObject = {name: {} for name in (".", *CONDITION_FIELDS)}
    return [
        {
            "manager": "kube-controller-manager",
            "operation": "Update",
            "apiVersion": "v1",
            "time": MOMENT,
            "fieldsType": "FieldsV1",
            "fieldsV1": {
                "f:metadata": {
                    "f:generateName": {},
                    "f:labels": {".": {}, **{f"f:{label}": {} for label in LABELS}},
                    "f:ownerReferences": {".": {}, f'k:{{"uid":"{owner_uid}"}}': {}},
                },
                "f:spec": {
                    "f:containers": {'k:{"name":"runtime"}': container},
                    **{name: {} for name in SPEC_FIELDS},
                },
            },
        },
        {
            "manager": "kubelet",
            "operation": "Update",
            "apiVersion": "v1",
            "time": MOMENT,
            "fieldsType": "FieldsV1",
            "fieldsV1": {
                "f:status": {
                    "f:conditions": {f'k:{{"type":"{kind}"}}': condition for kind in CONDITIONS},
                    "f:containerStatuses": {},
                    "f:phase": {},
                }
            },
            "subresource": "status",
        },
    ]


def _spec(app: str, *, node: str) -> JsonObject:
    size = {"cpu": "4", "memory": "16Gi", "nvidia.com/gpu": "1"}
    return {
        "volumes": [
            {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "8Gi"}},
            {"name": "data", "persistentVolumeClaim": {"claimName": f"{app}-data"}},
        ],
        "containers": [
            {
                "name": "runtime",
                "image": "registry.example/tenant/inference-server:2.4.1",
                "command": ["/usr/bin/serve"],
                "args": ["--port=8000", "--model=/data/model", f"--name={app}"],
                "ports": [{"name": "http", "containerPort": 8000, "protocol": "TCP"}],
                "env": [
                    {"name": "SPEC_NAME", "value": "g1.1"},
                    {"name": "UNIT_NAME", "value": app},
                    {"name": "GPU_COUNT", "value": "1"},
                    {"name": "MEMORY_LIMIT", "value": "16Gi"},
                ],
                "resources": {"limits": size, "requests": size},
                "volumeMounts": [
                    {"name": "shm", "mountPath": "/dev/shm"},
                    {"name": "data", "mountPath": "/data"},
                ],
                "terminationMessagePath": "/dev/termination-log",
                "imagePullPolicy": "IfNotPresent",
            }
        ],
        "restartPolicy": "Always",
        "dnsPolicy": "ClusterFirst",
        "nodeName": node,
        "schedulerName": "default-scheduler",
        "priorityClassName": "gpuruntime-instance",
        "tolerations": [
            {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
            for key in ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
        ],
    }


def _status(index: int, version: int) -> JsonObject:
    address = f"10.{index // 65_536}.{index // 256 % 256}.{index % 256}"
    return {
        "phase": "Running",
        "conditions": [
            {"type": kind, "status": "True", "lastTransitionTime": MOMENT} for kind in CONDITIONS
        ],
        "message": f"version {version}",
        "podIP": address,
        "podIPs": [{"ip": address}],
        "startTime": MOMENT,
        "containerStatuses": [
            {
                "name": "runtime",
                "state": {"running": {"startedAt": MOMENT}},
                "ready": True,
                "restartCount": 0,
                "image": "registry.example/tenant/inference-server:2.4.1",
                "imageID": "",
                "containerID": f"containerd://{index:064x}",
                "started": True,
            }
        ],
    }


def pod_pages(count: int, *, limit: int = 500) -> Iterator[bytes]:
    """The answers to one paged list, continue tokens and all; Pod n has version n + 1."""
    for start in range(0, count, limit):
        end = min(start + limit, count)
        items = [pod_json(index, index + 1) for index in range(start, end)]
        metadata = {"resourceVersion": str(count)} | (
            {"continue": str(end)} if end < count else {}
        )
        yield codec.encode(
            {"kind": "PodList", "apiVersion": "v1", "metadata": metadata, "items": items}
        )
