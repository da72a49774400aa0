"""Requests as values; a mapping with the same JSON members works as well.

An absent member has the API's default. In a change, an absent member stays as it is, and None
clears it. The API alone validates a request, and names every fault at once.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Any, Final, TypeAlias, TypeVar
from uuid import uuid4

import attrs

from gpuruntime.models.encoding.codec import default_of
from gpuruntime.models.encoding.json import JsonObject
from gpuruntime.models.kinds.functions import Serverless
from gpuruntime.models.kinds.invocations import Mode
from gpuruntime.models.kinds.pools import Refill
from gpuruntime.models.kinds.storages import Accessor, Prepare
from gpuruntime.models.kinds.templates import Template
from gpuruntime.models.kinds.units import Access, StorageMount

ValueT = TypeVar("ValueT")


class Unset(Enum):
    """The type of UNSET, the value of a member that a change leaves alone."""

    UNSET = "unset"


UNSET: Final = Unset.UNSET
Given: TypeAlias = ValueT | Unset | None


@attrs.frozen(kw_only=True, slots=True)
class NewUnit:
    """A unit to create. Without an operationID the client makes one: a retry creates no second
    unit.
    """

    operationID: str = ""
    name: str = ""
    specName: str
    image: str
    template: Template = Template()
    access: Access = Access()
    storageMounts: tuple[StorageMount, ...] = ()
    serverless: Serverless | None = None
    tenant: str = ""


@attrs.frozen(kw_only=True, slots=True)
class UnitChange:
    image: Given[str] = UNSET
    template: Given[Template] = UNSET
    access: Given[Access] = UNSET
    storageMounts: Given[tuple[StorageMount, ...]] = UNSET
    serverless: Given[Serverless] = UNSET
    suspended: Given[bool] = UNSET


@attrs.frozen(kw_only=True, slots=True)
class NewStock:
    """Stock units to create once, `replicas` in number."""

    operationID: str = ""
    specName: str
    cpu: str = ""
    memory: str = ""
    gpu: int = 0
    gpuProduct: str = ""
    replicas: int


@attrs.frozen(kw_only=True, slots=True)
class NewPool:
    operationID: str = ""
    name: str = ""
    specName: str
    image: str = ""
    cpu: str = ""
    memory: str = ""
    gpu: int = 0
    gpuProduct: str = ""
    replicas: int
    template: Template = Template()
    refill: str = Refill.ALWAYS


@attrs.frozen(kw_only=True, slots=True)
class PoolChange:
    image: Given[str] = UNSET
    template: Given[Template] = UNSET
    replicas: int | Unset = UNSET
    refill: str | Unset = UNSET


@attrs.frozen(kw_only=True, slots=True)
class NewStorage:
    operationID: str = ""
    name: str = ""
    size: str
    storageClassName: str = ""
    prepare: Prepare | None = None
    accessor: Accessor = Accessor()
    tenant: str = ""


@attrs.frozen(kw_only=True, slots=True)
class StorageChange:
    size: str | Unset = UNSET
    accessor: Given[Accessor] = UNSET


@attrs.frozen(kw_only=True, slots=True)
class Invoke:
    """A call of a function. Without an invocationID the client makes one: a retry runs nothing
    twice.
    """

    invocationID: str = ""
    serverlessRequestID: str
    mode: str = Mode.ASYNC
    contentType: str = "application/json"
    headers: Mapping[str, str] = attrs.field(factory=dict)
    attributes: Mapping[str, str] = attrs.field(factory=dict)
    payload: Any = None
    timeoutSeconds: int | None = None


def document_of(request: Any) -> JsonObject:
    """Return the JSON members that differ from their defaults, or a mapping as it is."""
    if isinstance(request, Mapping):
        return dict(request)
    return {
        field.name: _plain(value)
        for field in attrs.fields(type(request))
        if (value := getattr(request, field.name)) != default_of(field)
    }


def named(document: JsonObject, member: str) -> JsonObject:
    """Return the document with an id in `member`: the caller's own, or a new one."""
    return document if document.get(member) else {**document, member: f"client-{uuid4().hex}"}


def _plain(value: Any) -> Any:
    if attrs.has(type(value)):
        return document_of(value)
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return value
