"""The metadata of every Kubernetes object, as far as we read it."""

from datetime import datetime
from typing import NamedTuple, Protocol

import attrs


class Key(NamedTuple):
    """The identity of an object within its kind; a cluster-scoped one has no namespace."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


@attrs.frozen(kw_only=True, slots=True)
class OwnerReference:
    apiVersion: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool = False
    blockOwnerDeletion: bool = False


@attrs.frozen(kw_only=True, slots=True)
class ObjectMeta:
    """managedFields are left out on purpose; they double an object, and we never read them."""

    name: str = ""
    generateName: str = ""
    namespace: str = ""
    uid: str = ""
    resourceVersion: str = ""
    generation: int = 0
    creationTimestamp: datetime | None = None
    deletionTimestamp: datetime | None = None
    deletionGracePeriodSeconds: int | None = None
    labels: dict[str, str] = attrs.field(factory=dict)
    annotations: dict[str, str] = attrs.field(factory=dict)
    ownerReferences: tuple[OwnerReference, ...] = ()
    finalizers: tuple[str, ...] = ()

    @property
    def key(self) -> Key:
        return Key(self.namespace, self.name)

    @property
    def controller_owner(self) -> OwnerReference | None:
        return next((owner for owner in self.ownerReferences if owner.controller), None)


class KubernetesObject(Protocol):
    """The only part of an object that clients, informers and controllers need."""

    @property
    def metadata(self) -> ObjectMeta: ...


@attrs.frozen(kw_only=True, slots=True)
class PartialObject:
    """Any kind of object, read for its metadata only."""

    metadata: ObjectMeta = attrs.field(factory=ObjectMeta)
