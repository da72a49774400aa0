"""A tombstone records which operation has ended, and which of its objects were deleted.

Several objects may have had one operationID, if one of them lost a conflict. Each has its own
entry.
"""

from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from typing import Final

import attrs

from gpuruntime.models.encoding import codec
from gpuruntime.models.kinds import labels, provenance
from gpuruntime.models.kubernetes.cluster import ConfigMap
from gpuruntime.models.kubernetes.metadata import KubernetesObject
from gpuruntime.models.kubernetes.timestamps import moment_of

TOMBSTONE_APP: Final = "gpuruntime-tombstone"
TOMBSTONE_SELECTOR: Final = f"{labels.APP_NAME}={TOMBSTONE_APP}"
EXPIRES_AT: Final = f"{labels.GROUP}/expires-at"
_NEVER = datetime.max.replace(tzinfo=UTC)


@attrs.frozen(kw_only=True, slots=True)
class DeletedObject:
    """A deleted object; another object of its operation and name must not start."""

    kind: str
    namespace: str
    name: str
    uid: str
    requestHash: str


@attrs.frozen(kw_only=True, slots=True)
class Tombstone:
    operation_id: str
    expires_at: datetime
    buried: tuple[DeletedObject, ...]

    def covers(self, value: KubernetesObject) -> bool:
        return any(each.uid == value.metadata.uid for each in self.buried)

    def forbids(self, value: KubernetesObject) -> bool:
        """Return whether the object is a later one that took the name of a deleted object."""
        metadata = value.metadata
        same_name = [each for each in self.buried if each.name == metadata.name]
        return bool(same_name) and all(each.uid != metadata.uid for each in same_name)


def tombstone_of(config_map: ConfigMap) -> Tombstone:
    """Return the tombstone; it ends its operation even if its data was overwritten."""
    return Tombstone(
        operation_id=provenance.operation_of(config_map),
        expires_at=_expiry_of(config_map),
        buried=tuple(_deleted_objects_in(config_map)),
    )


def _deleted_objects_in(config_map: ConfigMap) -> Iterator[DeletedObject]:
    for text in config_map.data.values():
        with suppress(codec.MalformedObjectError):
            yield codec.decode(text.encode(), DeletedObject)


def _expiry_of(config_map: ConfigMap) -> datetime:
    """Return the expiry, or the end of time if it cannot be read.

    So no operation is forgotten early.
    """
    return moment_of(config_map.metadata.annotations.get(EXPIRES_AT, "")) or _NEVER
