"""Pools as callers see them."""

from datetime import datetime
from typing import Annotated, TypeAlias

import attrs

from gpuruntime.models.definitions.schemas import Schema
from gpuruntime.models.kinds.phases import PoolPhase
from gpuruntime.models.kinds.templates import Template
from gpuruntime.models.kubernetes.conditions import Condition

PoolPhaseText: TypeAlias = Annotated[str, Schema(enum=tuple(PoolPhase))]


@attrs.frozen(kw_only=True, slots=False)
class PoolView:
    """A pool: its wanted state, and the counts of its stock."""

    name: str
    namespace: str
    operationID: str
    specName: str
    cpu: str
    memory: str
    gpu: int
    gpuProduct: str
    replicas: int
    refill: str
    image: str
    template: Template
    phase: PoolPhaseText
    reason: str
    message: str
    conditions: tuple[Condition, ...]
    available: int
    claimed: int
    progressing: int
    failed: int
    stale: int
    seeded: int
    skipped: int
    consumed: int
    generation: int
    observedGeneration: int
    createdAt: datetime | None
