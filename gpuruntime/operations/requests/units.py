"""Requests for units."""

from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, TypeAlias

import attrs

from gpuruntime.models.definitions import rules
from gpuruntime.models.definitions.schemas import Rule, Schema
from gpuruntime.models.definitions.texts import Image, LabelValue, Name, SpecName
from gpuruntime.models.kinds.functions import Serverless
from gpuruntime.models.kinds.templates import Template
from gpuruntime.models.kinds.units import Access, StorageMount
from gpuruntime.operations.options import Namespaces
from gpuruntime.operations.requests.fields import (
    ChosenName,
    OperationID,
    fixed_envelope,
    misplaced,
)
from gpuruntime.operations.requests.unset import UNSET, Given, structurer_of
from gpuruntime.strict.constraints import Check, read
from gpuruntime.strict.structure import Problem


def _platform_owner(function: Any) -> str:
    if isinstance(function, dict) and "workerOf" in function:
        return "is set by the platform when it makes a worker: leave it out"
    return ""


RequiredImage: TypeAlias = Annotated[Image, Schema(minLength=1)]
Function: TypeAlias = Annotated[Serverless, Check(_platform_owner, ".workerOf")]
StorageMounts: TypeAlias = Annotated[
    tuple[StorageMount, ...],
    Schema(maxItems=16),
    rules.UNIQUE_STORAGES,
    rules.UNIQUE_MOUNT_PATHS,
    rules.APART_MOUNT_PATHS,
]


@attrs.frozen(kw_only=True, slots=True)
class CreateUnit:
    """A unit that runs the image with the envelope of one ready stock unit."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        rules.ONE_WORKER_FOR_STORAGE,
        rules.SOCKET_OFF_STORAGES,
    )

    operationID: OperationID
    name: ChosenName = ""
    namespace: Name = ""
    specName: SpecName
    stockNamespace: Name = ""
    image: RequiredImage
    template: Template = Template()
    access: Access = Access()
    storageMounts: StorageMounts = ()
    serverless: Function | None = None
    tenant: LabelValue = ""


@attrs.frozen(kw_only=True, slots=True)
class UpdateUnit:
    """Given fields replace, absent fields stay, and null clears; the envelope cannot change."""

    image: Given[Image] = UNSET
    template: Given[Template] = UNSET
    access: Given[Access] = UNSET
    storageMounts: Given[StorageMounts] = UNSET
    serverless: Given[Function] = UNSET
    suspended: Given[bool] = UNSET


def parse_create_unit(document: object, namespaces: Namespaces) -> CreateUnit:
    places = {"namespace": namespaces.instance, "stockNamespace": namespaces.stock}
    further = (*misplaced(document, places), *_unknown_port(document))
    return read(document, CreateUnit, _structurer, further)


def parse_update_unit(document: object) -> UpdateUnit:
    return read(document, UpdateUnit, _structurer, fixed_envelope(document))


def _unknown_port(document: object) -> Iterator[Problem]:
    """Yield a problem if the primaryPort names no port.

    The rule of our kind applies only if ports are given; a caller must give both. Values of a
    wrong shape are reported by the schema.
    """
    match document:
        case {"access": {"primaryPort": str(primary)}} if primary:
            named = [port.get("name") for port in _ports(document) if isinstance(port, dict)]
            if primary not in named:
                message = "must be the name of one of template.ports"
                yield Problem(field="access.primaryPort", message=message)


def _ports(document: object) -> list[object]:
    match document:
        case {"template": {"ports": list(ports)}}:
            return ports
        case _:
            return []


_structurer = structurer_of(UpdateUnit)
