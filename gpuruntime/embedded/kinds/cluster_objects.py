"""Nodes, claims, volumes and other objects as scheduler and controllers read them."""

from typing import Final

import attrs

from gpuruntime.embedded.kinds.pod_objects import Amounts
from gpuruntime.models.kubernetes.conditions import Condition
from gpuruntime.models.kubernetes.devices import GROUP, ResourceClaimSpec
from gpuruntime.models.kubernetes.metadata import ObjectMeta, PartialObject
from gpuruntime.models.kubernetes.resources import Resource


@attrs.frozen(kw_only=True, slots=True)
class Taint:
    key: str = ""
    value: str = ""
    effect: str = ""


@attrs.frozen(kw_only=True, slots=True)
class NodeSpec:
    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()


@attrs.frozen(kw_only=True, slots=True)
class NodeStatus:
    allocatable: Amounts = attrs.field(factory=dict)
    conditions: tuple[Condition, ...] = ()


@attrs.frozen(kw_only=True, slots=True)
class Node:
    metadata: ObjectMeta = attrs.field(factory=ObjectMeta)
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = attrs.field(factory=NodeStatus)


@attrs.frozen(kw_only=True, slots=True)
class ClaimResources:
    requests: Amounts = attrs.field(factory=dict)


@attrs.frozen(kw_only=True, slots=True)
class ClaimSpec:
    accessModes: tuple[str, ...] = ()
    resources: ClaimResources = attrs.field(factory=ClaimResources)
    storageClassName: str | None = None
    volumeMode: str = "Filesystem"
    volumeName: str = ""


@attrs.frozen(kw_only=True, slots=True)
class ClaimStatus:
    phase: str = ""
    accessModes: tuple[str, ...] = ()
    capacity: Amounts = attrs.field(factory=dict)


@attrs.frozen(kw_only=True, slots=True)
class Claim:
    metadata: ObjectMeta = attrs.field(factory=ObjectMeta)
    spec: ClaimSpec = attrs.field(factory=ClaimSpec)
    status: ClaimStatus = attrs.field(factory=ClaimStatus)


@attrs.frozen(kw_only=True, slots=True)
class ClaimReference:
    apiVersion: str = "v1"
    kind: str = "PersistentVolumeClaim"
    namespace: str = ""
    name: str = ""
    uid: str = ""


@attrs.frozen(kw_only=True, slots=True)
class HostPath:
    path: str = ""


@attrs.frozen(kw_only=True, slots=True)
class VolumeSpec:
    accessModes: tuple[str, ...] = ()
    capacity: Amounts = attrs.field(factory=dict)
    claimRef: ClaimReference | None = None
    persistentVolumeReclaimPolicy: str = "Retain"
    storageClassName: str = ""
    volumeMode: str = "Filesystem"
    hostPath: HostPath | None = None


@attrs.frozen(kw_only=True, slots=True)
class VolumeStatus:
    phase: str = ""


@attrs.frozen(kw_only=True, slots=True)
class PersistentVolume:
    metadata: ObjectMeta = attrs.field(factory=ObjectMeta)
    spec: VolumeSpec = attrs.field(factory=VolumeSpec)
    status: VolumeStatus = VolumeStatus()


@attrs.frozen(kw_only=True, slots=True)
class StorageClass:
    metadata: ObjectMeta = attrs.field(factory=ObjectMeta)
    provisioner: str = ""
    reclaimPolicy: str = "Delete"
    volumeBindingMode: str = "Immediate"
    allowVolumeExpansion: bool = False

    @property
    def waits_for_consumer(self) -> bool:
        return self.volumeBindingMode == "WaitForFirstConsumer"


@attrs.frozen(kw_only=True, slots=True)
class ServicePort:
    port: int = 0
    targetPort: int | str = 0


@attrs.frozen(kw_only=True, slots=True)
class ServiceSpec:
    clusterIP: str = ""
    ports: tuple[ServicePort, ...] = ()
    selector: dict[str, str] = attrs.field(factory=dict)


@attrs.frozen(kw_only=True, slots=True)
class Service:
    metadata: ObjectMeta = attrs.field(factory=ObjectMeta)
    spec: ServiceSpec = attrs.field(factory=ServiceSpec)


@attrs.frozen(kw_only=True, slots=True)
class DeviceClaimTemplateSpec:
    metadata: ObjectMeta = attrs.field(factory=ObjectMeta)
    spec: ResourceClaimSpec = ResourceClaimSpec()


@attrs.frozen(kw_only=True, slots=True)
class DeviceClaimTemplate:
    metadata: ObjectMeta = attrs.field(factory=ObjectMeta)
    spec: DeviceClaimTemplateSpec = attrs.field(factory=DeviceClaimTemplateSpec)


DEVICE_CLAIM_TEMPLATES: Final = Resource(
    group=GROUP,
    version="v1",
    kind="ResourceClaimTemplate",
    plural="resourceclaimtemplates",
    type=DeviceClaimTemplate,
)
NAMESPACES: Final = Resource(
    group="",
    version="v1",
    kind="Namespace",
    plural="namespaces",
    type=PartialObject,
    is_namespaced=False,
)
SERVICE_ACCOUNTS: Final = Resource(
    group="", version="v1", kind="ServiceAccount", plural="serviceaccounts", type=PartialObject
)
SERVICES: Final = Resource(group="", version="v1", kind="Service", plural="services", type=Service)
NODES: Final = Resource(
    group="", version="v1", kind="Node", plural="nodes", type=Node, is_namespaced=False
)
CLAIMS: Final = Resource(
    group="",
    version="v1",
    kind="PersistentVolumeClaim",
    plural="persistentvolumeclaims",
    type=Claim,
)
VOLUMES: Final = Resource(
    group="",
    version="v1",
    kind="PersistentVolume",
    plural="persistentvolumes",
    type=PersistentVolume,
    is_namespaced=False,
)
STORAGE_CLASSES: Final = Resource(
    group="storage.k8s.io",
    version="v1",
    kind="StorageClass",
    plural="storageclasses",
    type=StorageClass,
    is_namespaced=False,
)
