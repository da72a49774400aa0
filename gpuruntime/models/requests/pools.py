"""Requests for stock: units that are seeded once, and pools."""

from typing import Annotated, ClassVar, TypeAlias

import attrs

from gpuruntime.models.definitions import rules
from gpuruntime.models.definitions.schemas import Rule, Schema
from gpuruntime.models.definitions.texts import Image, LabelValue, Name, SpecName
from gpuruntime.models.kinds.pools import MOST_REPLICAS, Refill
from gpuruntime.models.kinds.templates import Template
from gpuruntime.models.requests.fields import (
    UNSET,
    ChosenName,
    Given,
    Gpus,
    OperationID,
    PositiveQuantity,
    Unset,
)

PoolName: TypeAlias = Annotated[ChosenName, Schema(maxLength=rules.LONGEST_POOL_NAME)]
Replicas: TypeAlias = Annotated[int, Schema(minimum=0, maximum=MOST_REPLICAS)]
RefillPolicy: TypeAlias = Annotated[str, Schema(enum=tuple(Refill))]


@attrs.frozen(kw_only=True, slots=True)
class SeedStock:
    """A number of stock units to create once."""

    REQUIRED: ClassVar[tuple[str, ...]] = ("operationID",)

    operationID: OperationID = ""
    name: PoolName = ""
    specName: SpecName
    cpu: PositiveQuantity = ""
    memory: PositiveQuantity = ""
    gpu: Gpus = 0
    gpuProduct: LabelValue = ""
    replicas: Annotated[int, Schema(minimum=1, maximum=MOST_REPLICAS)]


@attrs.frozen(kw_only=True, slots=True)
class CreatePool:
    """A stock pool, which is kept full or filled once."""

    RULES: ClassVar[tuple[Rule, ...]] = (rules.NO_SECRETS_IN_STOCK,)
    REQUIRED: ClassVar[tuple[str, ...]] = ("operationID",)

    operationID: OperationID = ""
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
