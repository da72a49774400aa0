"""A StockPool is the durable record of the stock that should exist."""

from enum import StrEnum
from typing import Annotated, ClassVar, Final

import attrs

from gpuruntime.models.definitions import rules
from gpuruntime.models.definitions.schemas import Rule, Schema
from gpuruntime.models.definitions.texts import Image, LabelValue, QuantityText, SpecName
from gpuruntime.models.kinds.labels import GROUP
from gpuruntime.models.kinds.phases import PoolPhase
from gpuruntime.models.kinds.templates import Template
from gpuruntime.models.kinds.units import MOST_GPUS, VERSION
from gpuruntime.models.kubernetes.conditions import Condition
from gpuruntime.models.kubernetes.metadata import ObjectMeta
from gpuruntime.models.kubernetes.resources import Resource

MOST_REPLICAS: Final = 10_000


class Refill(StrEnum):
    # Keep `replicas` unclaimed units in existence.
    ALWAYS = "Always"
    # Create `replicas` units in total, and none again.
    NEVER = "Never"


@attrs.frozen(kw_only=True, slots=True)
class StockPoolSpec:
    """The envelope (specName, cpu, memory, gpu, gpuProduct) is fixed; the rest may change."""

    RULES: ClassVar[tuple[Rule, ...]] = (*rules.ENVELOPE, rules.NO_SECRETS_IN_STOCK)

    specName: Annotated[SpecName, rules.IMMUTABLE]
    cpu: Annotated[
        QuantityText, Schema(description="Request and limit; the manager's default if absent.")
    ] = ""
    memory: Annotated[
        QuantityText, Schema(description="Request and limit; the manager's default if absent.")
    ] = ""
    gpu: Annotated[int, Schema(minimum=0, maximum=MOST_GPUS), rules.IMMUTABLE] = 0
    gpuProduct: Annotated[
        LabelValue, Schema(description="The node label nvidia.com/gpu.product; any if absent.")
    ] = ""
    replicas: Annotated[int, Schema(minimum=0, maximum=MOST_REPLICAS)]
    refill: Annotated[
        str,
        Schema(
            enum=tuple(Refill),
            description="Always keeps replicas unclaimed units; Never creates them once.",
        ),
    ] = Refill.ALWAYS
    image: Annotated[
        Image, Schema(description="The image of stock Pods, so that nodes have it before a claim.")
    ] = ""
    template: Template = Template()


@attrs.frozen(kw_only=True, slots=True)
class StockPoolStatus:
    phase: Annotated[str, Schema(enum=tuple(PoolPhase))] = ""
    available: Annotated[int, Schema(description="Ready and unclaimed.")] = 0
    claimed: int = 0
    progressing: int = 0
    failed: int = 0
    stale: Annotated[
        int, Schema(description="Unclaimed units with an earlier image or template of the pool.")
    ] = 0
    seeded: Annotated[int, Schema(description="The highest ordinal ever created.")] = 0
    skipped: Annotated[
        int, Schema(description="Ordinals below seeded of which no unit was ever created.")
    ] = 0
    consumed: Annotated[int, Schema(description="Seeded units that no longer exist.")] = 0
    observedGeneration: int = 0
    conditions: Annotated[tuple[Condition, ...], Schema(maxItems=16, listMapKey="type")] = ()

    @property
    def created(self) -> int:
        """Return how many units the pool has created: those that it reports, and the consumed.

        `seeded` is no such number: it is written late, and ordinals below it may be skipped.
        """
        living = self.available + self.claimed + self.progressing + self.failed
        return living + self.consumed


@attrs.frozen(kw_only=True, slots=True)
class StockPool:
    """The stock that should exist: a number of units of one envelope, kept up or created once."""

    RULES: ClassVar[tuple[Rule, ...]] = rules.POOL_NAME

    metadata: ObjectMeta = attrs.field(factory=ObjectMeta)
    spec: StockPoolSpec
    status: StockPoolStatus = StockPoolStatus()


STOCK_POOLS: Final = Resource(
    group=GROUP, version=VERSION, kind="StockPool", plural="stockpools", type=StockPool
)
