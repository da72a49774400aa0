"""Requests for stock pools."""

from typing import Annotated, TypeAlias

import attrs

from gpuruntime.models.definitions import rules
from gpuruntime.models.definitions.schemas import Schema
from gpuruntime.models.definitions.texts import Image, LabelValue, Name, SpecName
from gpuruntime.models.kinds.pools import MOST_REPLICAS, Refill
from gpuruntime.models.kinds.templates import Template
from gpuruntime.operations.options import Namespaces
from gpuruntime.operations.requests.fields import (
    ChosenName,
    Gpus,
    OperationID,
    PositiveQuantity,
    fixed_envelope,
    misplaced,
)
from gpuruntime.operations.requests.unset import UNSET, Given, Unset, structurer_of
from gpuruntime.strict.constraints import read

PoolName: TypeAlias = Annotated[ChosenName, Schema(maxLength=rules.LONGEST_POOL_NAME)]
Replicas: TypeAlias = Annotated[int, Schema(minimum=0, maximum=MOST_REPLICAS)]
RefillPolicy: TypeAlias = Annotated[str, Schema(enum=tuple(Refill))]


@attrs.frozen(kw_only=True, slots=True)
class CreatePool:
    """A stock pool, which is kept full or filled once."""

    operationID: OperationID
    name: PoolName = ""
    namespace: Name = ""
    specName: SpecName
    image: Image = ""
    cpu: PositiveQuantity = ""
    memory: PositiveQuantity = ""
    gpu: Gpus = 0
    gpuProduct: LabelValue = ""
    replicas: Replicas
    template: Template = Template()
    refill: RefillPolicy = Refill.ALWAYS


@attrs.frozen(kw_only=True, slots=True)
class UpdatePool:
    """Given fields replace, absent fields stay, and null clears; the envelope cannot change."""

    image: Given[Image] = UNSET
    template: Given[Template] = UNSET
    replicas: Replicas | Unset = UNSET
    refill: RefillPolicy | Unset = UNSET


def parse_create_pool(document: object, namespaces: Namespaces) -> CreatePool:
    places = {"namespace": namespaces.stock}
    return read(document, CreatePool, _structurer, misplaced(document, places))


def parse_update_pool(document: object) -> UpdatePool:
    return read(document, UpdatePool, _structurer, fixed_envelope(document))


_structurer = structurer_of(UpdatePool)
