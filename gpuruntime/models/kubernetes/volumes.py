"""Claims of volumes, their storage classes, and the Jobs that fill them."""

from datetime import datetime
from typing import Final

import attrs

from gpuruntime.models.kinds import labels
from gpuruntime.models.kubernetes.conditions import Condition, condition_of
from gpuruntime.models.kubernetes.metadata import ObjectMeta
from gpuruntime.models.kubernetes.resources import Resource

LATE_BINDING: Final = "WaitForFirstConsumer"


@attrs.frozen(kw_only=True, slots=True)
class ClaimResources:
    """Quantities by resource name."""

    requests: dict[str, str] = attrs.field(factory=dict)


@attrs.frozen(kw_only=True, slots=True)
class VolumeClaimSpec:
    storageClassName: str = ""
    volumeName: str = ""
    resources: ClaimResources = attrs.field(factory=ClaimResources)


@attrs.frozen(kw_only=True, slots=True)
class VolumeClaimStatus:
    phase: str = ""
    capacity: dict[str, str] = attrs.field(factory=dict)
    conditions: tuple[Condition, ...] = ()


@attrs.frozen(kw_only=True, slots=True)
class VolumeClaim:
    metadata: ObjectMeta = attrs.field(factory=ObjectMeta)
    spec: VolumeClaimSpec = attrs.field(factory=VolumeClaimSpec)
    status: VolumeClaimStatus = attrs.field(factory=VolumeClaimStatus)

    @property
    def storage_uid(self) -> str:
        """Return the uid of the storage that the claim belongs to, or an empty string."""
        owner = self.metadata.controller_owner
        marked = self.metadata.annotations.get(labels.OWNER_UID, "")
        return marked or (owner.uid if owner else "")

    @property
    def size(self) -> str:
        return self.spec.resources.requests.get("storage", "")

    @property
    def capacity(self) -> str:
        return self.status.capacity.get("storage", "")


@attrs.frozen(kw_only=True, slots=True)
class StorageClass:
    metadata: ObjectMeta = attrs.field(factory=ObjectMeta)
    allowVolumeExpansion: bool = False
    volumeBindingMode: str = ""

    @property
    def binds_late(self) -> bool:
        """Return whether volumes are bound only with the first Pod that mounts them."""
        return self.volumeBindingMode == LATE_BINDING


@attrs.frozen(kw_only=True, slots=True)
class JobSpec:
    suspend: bool = False


@attrs.frozen(kw_only=True, slots=True)
class JobStatus:
    startTime: datetime | None = None
    conditions: tuple[Condition, ...] = ()


@attrs.frozen(kw_only=True, slots=True)
class Job:
    metadata: ObjectMeta = attrs.field(factory=ObjectMeta)
    spec: JobSpec = JobSpec()
    status: JobStatus = JobStatus()

    @property
    def has_succeeded(self) -> bool:
        return self._is("Complete")

    @property
    def has_failed(self) -> bool:
        return self._is("Failed")

    @property
    def is_running(self) -> bool:
        return not (self.spec.suspend or self.has_succeeded or self.has_failed)

    @property
    def words(self) -> str:
        failed = condition_of(self.status.conditions, "Failed")
        return f"{failed.reason}: {failed.message}" if failed else ""

    def _is(self, type_: str) -> bool:
        condition = condition_of(self.status.conditions, type_)
        return condition is not None and condition.is_true


VOLUME_CLAIMS: Final = Resource(
    group="",
    version="v1",
    kind="PersistentVolumeClaim",
    plural="persistentvolumeclaims",
    type=VolumeClaim,
)
STORAGE_CLASSES: Final = Resource(
    group="storage.k8s.io",
    version="v1",
    kind="StorageClass",
    plural="storageclasses",
    type=StorageClass,
    is_namespaced=False,
)
JOBS: Final = Resource(group="batch", version="v1", kind="Job", plural="jobs", type=Job)
