"""The parts of `resource.k8s.io/v1` that we read: claims, devices and their classes."""

from typing import Final

import attrs

from gpuruntime.models.kubernetes.metadata import ObjectMeta
from gpuruntime.models.kubernetes.resources import Resource

GROUP: Final = "resource.k8s.io"
ALL_DEVICES: Final = "All"
DELETE_PROTECTION: Final = "resource.kubernetes.io/delete-protection"


@attrs.frozen(kw_only=True, slots=True)
class DeviceTaint:
    key: str = ""
    value: str = ""
    effect: str = ""


@attrs.frozen(kw_only=True, slots=True)
class DeviceToleration:
    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""


@attrs.frozen(kw_only=True, slots=True)
class CelSelector:
    expression: str = ""


@attrs.frozen(kw_only=True, slots=True)
class DeviceSelector:
    cel: CelSelector = CelSelector()


@attrs.frozen(kw_only=True, slots=True)
class DeviceAsk:
    """The content of a request, or one of its alternatives; only an alternative has a name."""

    name: str = ""
    deviceClassName: str = ""
    selectors: tuple[DeviceSelector, ...] = ()
    allocationMode: str = ""
    count: int = 0
    adminAccess: bool = False
    tolerations: tuple[DeviceToleration, ...] = ()


@attrs.frozen(kw_only=True, slots=True)
class DeviceRequest:
    name: str = ""
    exactly: DeviceAsk | None = None
    firstAvailable: tuple[DeviceAsk, ...] = ()


@attrs.frozen(kw_only=True, slots=True)
class DeviceConstraint:
    requests: tuple[str, ...] = ()
    matchAttribute: str = ""


@attrs.frozen(kw_only=True, slots=True)
class DeviceClaim:
    requests: tuple[DeviceRequest, ...] = ()
    constraints: tuple[DeviceConstraint, ...] = ()


@attrs.frozen(kw_only=True, slots=True)
class ResourceClaimSpec:
    devices: DeviceClaim = DeviceClaim()


@attrs.frozen(kw_only=True, slots=True)
class AllocatedDevice:
    request: str = ""
    driver: str = ""
    pool: str = ""
    device: str = ""
    shareID: str = ""
    adminAccess: bool = False

    @property
    def identity(self) -> tuple[str, str, str]:
        """Return driver, pool and device, which name one device of the cluster."""
        return self.driver, self.pool, self.device


@attrs.frozen(kw_only=True, slots=True)
class AllocatedDevices:
    results: tuple[AllocatedDevice, ...] = ()


@attrs.frozen(kw_only=True, slots=True)
class NodeRequirement:
    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


@attrs.frozen(kw_only=True, slots=True)
class NodeTerm:
    matchExpressions: tuple[NodeRequirement, ...] = ()
    matchFields: tuple[NodeRequirement, ...] = ()


@attrs.frozen(kw_only=True, slots=True)
class NodeTerms:
    nodeSelectorTerms: tuple[NodeTerm, ...] = ()


@attrs.frozen(kw_only=True, slots=True)
class Allocation:
    devices: AllocatedDevices = AllocatedDevices()
    nodeSelector: NodeTerms | None = None


@attrs.frozen(kw_only=True, slots=True)
class Consumer:
    apiGroup: str = ""
    resource: str = ""
    name: str = ""
    uid: str = ""


@attrs.frozen(kw_only=True, slots=True)
class ResourceClaimStatus:
    allocation: Allocation | None = None
    reservedFor: tuple[Consumer, ...] = ()


@attrs.frozen(kw_only=True, slots=True)
class ResourceClaim:
    metadata: ObjectMeta = attrs.field(factory=ObjectMeta)
    spec: ResourceClaimSpec = ResourceClaimSpec()
    status: ResourceClaimStatus = ResourceClaimStatus()

    def is_reserved_for(self, uid: str) -> bool:
        return any(each.uid == uid for each in self.status.reservedFor)


@attrs.frozen(kw_only=True, slots=True)
class DeviceCapacity:
    value: str | int | float = 0


@attrs.frozen(kw_only=True, slots=True)
class Device:
    """A device of a slice; each attribute has one member: int, bool, string or version."""

    name: str = ""
    attributes: dict[str, dict[str, str | int | bool]] = attrs.field(factory=dict)
    capacity: dict[str, DeviceCapacity] = attrs.field(factory=dict)
    taints: tuple[DeviceTaint, ...] = ()


@attrs.frozen(kw_only=True, slots=True)
class ResourcePool:
    name: str = ""
    generation: int = 0
    resourceSliceCount: int = 0


@attrs.frozen(kw_only=True, slots=True)
class ResourceSliceSpec:
    driver: str = ""
    pool: ResourcePool = ResourcePool()
    nodeName: str = ""
    nodeSelector: NodeTerms | None = None
    allNodes: bool = False
    devices: tuple[Device, ...] = ()


@attrs.frozen(kw_only=True, slots=True)
class ResourceSlice:
    metadata: ObjectMeta = attrs.field(factory=ObjectMeta)
    spec: ResourceSliceSpec = ResourceSliceSpec()


@attrs.frozen(kw_only=True, slots=True)
class DeviceClassSpec:
    selectors: tuple[DeviceSelector, ...] = ()


@attrs.frozen(kw_only=True, slots=True)
class DeviceClass:
    metadata: ObjectMeta = attrs.field(factory=ObjectMeta)
    spec: DeviceClassSpec = DeviceClassSpec()


RESOURCE_CLAIMS: Final = Resource(
    group=GROUP, version="v1", kind="ResourceClaim", plural="resourceclaims", type=ResourceClaim
)
RESOURCE_SLICES: Final = Resource(
    group=GROUP,
    version="v1",
    kind="ResourceSlice",
    plural="resourceslices",
    type=ResourceSlice,
    is_namespaced=False,
)
DEVICE_CLASSES: Final = Resource(
    group=GROUP,
    version="v1",
    kind="DeviceClass",
    plural="deviceclasses",
    type=DeviceClass,
    is_namespaced=False,
)
