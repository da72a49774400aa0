"""Requests for stock that is seeded once."""

from typing import Annotated

import attrs

from gpuruntime.models.definitions.schemas import Schema
from gpuruntime.models.definitions.texts import LabelValue, SpecName
from gpuruntime.models.kinds.pools import MOST_REPLICAS
from gpuruntime.operations.requests.fields import Gpus, OperationID, PositiveQuantity
from gpuruntime.strict.constraints import read
from gpuruntime.strict.structure import Structurer


@attrs.frozen(kw_only=True, slots=True)
class SeedStock:
    """A number of stock units to create once."""

    operationID: OperationID
    specName: SpecName
    cpu: PositiveQuantity = ""
    memory: PositiveQuantity = ""
    gpu: Gpus = 0
    gpuProduct: LabelValue = ""
    replicas: Annotated[int, Schema(minimum=1, maximum=MOST_REPLICAS)]


def parse_seed_stock(document: object) -> SeedStock:
    return read(document, SeedStock, _structurer)


_structurer = Structurer()
