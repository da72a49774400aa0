"""Requests for storages."""

from typing import Annotated

import attrs

from gpuruntime.models.definitions.schemas import Schema
from gpuruntime.models.definitions.texts import ClassName, LabelValue, Name
from gpuruntime.models.kinds.storages import Accessor, Prepare
from gpuruntime.models.requests.fields import (
    UNSET,
    ChosenName,
    Given,
    OperationID,
    PositiveQuantity,
    Unset,
)


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
