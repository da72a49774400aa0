"""Requests for storages."""

from collections.abc import Iterator
from typing import Annotated, Final

import attrs

from gpuruntime.models.definitions import rules
from gpuruntime.models.definitions.schemas import Schema
from gpuruntime.models.definitions.texts import ClassName, LabelValue, Name
from gpuruntime.models.kinds.storages import Accessor, Prepare
from gpuruntime.operations.options import Namespaces
from gpuruntime.operations.requests.fields import (
    ChosenName,
    OperationID,
    PositiveQuantity,
    misplaced,
)
from gpuruntime.operations.requests.unset import UNSET, Given, Unset, structurer_of
from gpuruntime.strict.constraints import read
from gpuruntime.strict.structure import Problem

_FIXED: Final = ("storageClassName", "prepare")


@attrs.frozen(kw_only=True, slots=True)
class CreateStorage:
    """A volume that outlives the units that mount it."""

    operationID: Annotated[
        OperationID, Schema(description="If absent, only the name identifies the storage.")
    ] = ""
    name: ChosenName = ""
    namespace: Name = ""
    size: PositiveQuantity
    storageClassName: ClassName = ""
    prepare: Prepare | None = None
    accessor: Accessor = Accessor()
    tenant: LabelValue = ""


@attrs.frozen(kw_only=True, slots=True)
class UpdateStorage:
    """Given fields replace, absent fields stay, and null clears; a size never shrinks."""

    size: PositiveQuantity | Unset = UNSET
    accessor: Given[Accessor] = UNSET


def parse_create_storage(document: object, namespaces: Namespaces) -> CreateStorage:
    places = {"namespace": namespaces.instance}
    further = (*misplaced(document, places), *_nameless(document), *_copying_itself(document))
    return read(document, CreateStorage, _structurer, further)


def parse_update_storage(document: object) -> UpdateStorage:
    return read(document, UpdateStorage, _structurer, _fixed(document))


def _nameless(document: object) -> Iterator[Problem]:
    if isinstance(document, dict) and "name" not in document and "operationID" not in document:
        message = "is needed, or an operationID to derive one from"
        yield Problem(field="name", message=message)


def _copying_itself(document: object) -> Iterator[Problem]:
    match document:
        case {"name": str(name), "prepare": {"fromStorageName": str(source)}} if name == source:
            yield Problem(field="prepare.fromStorageName", message=rules.NOT_ITSELF.message)


def _fixed(document: object) -> Iterator[Problem]:
    members = document if isinstance(document, dict) else {}
    for field in _FIXED:
        if field in members:
            message = "cannot change: create another storage, and copy this one where needed"
            yield Problem(field=field, message=message)


_structurer = structurer_of(UpdateStorage)
