"""Units and their Events as callers see them."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated, TypeAlias

import attrs

from gpuruntime.models.definitions.schemas import Schema
from gpuruntime.models.kinds.functions import Serverless
from gpuruntime.models.kinds.phases import UnitPhase
from gpuruntime.models.kinds.templates import Template
from gpuruntime.models.kinds.units import StorageMount, Timeline
from gpuruntime.models.kubernetes.conditions import Condition


class Lifecycle(StrEnum):
    """Active units, units in stock, or both."""

    INSTANCE = "instance"
    STOCK = "stock"
    ALL = "all"


LifecycleText: TypeAlias = Annotated[str, Schema(enum=tuple(Lifecycle))]
UnitPhaseText: TypeAlias = Annotated[str, Schema(enum=tuple(UnitPhase))]


@attrs.frozen(kw_only=True, slots=False)
class SourceStock:
    """The stock unit whose envelope the unit took over."""

    name: str
    namespace: str
    uid: str


@attrs.frozen(kw_only=True, slots=False)
class AccessView:
    """The access of a unit; `slug` and `urls` are where a gateway serves it, if there is one."""

    primaryPort: str
    scheme: str
    readiness: str
    wake: bool
    sshKeys: tuple[str, ...]
    generation: int
    slug: str = ""
    urls: dict[str, str] = attrs.field(factory=dict)


@attrs.frozen(kw_only=True, slots=False)
class UnitView:
    """A unit: its wanted and its actual state; `phase` follows from `conditions`."""

    name: str
    namespace: str
    lifecycle: LifecycleText
    tenant: str
    specName: str
    image: str
    cpu: str
    memory: str
    gpu: int
    gpuProduct: str
    template: Template
    access: AccessView
    storageMounts: tuple[StorageMount, ...]
    imagePullSecrets: tuple[str, ...]
    serverless: Serverless | None
    suspended: bool
    phase: UnitPhaseText
    reason: str
    message: str
    conditions: tuple[Condition, ...]
    readyReplicas: int
    generation: int
    observedGeneration: int
    nodeName: str
    serviceName: str
    accessURL: str
    operationID: str
    sourceStock: SourceStock | None
    timeline: Timeline
    createdAt: datetime | None


@attrs.frozen(kw_only=True, slots=False)
class EventView:
    """A Kubernetes Event of a unit or its Pods; `objectKind` and `objectName` name which."""

    type: str
    reason: str
    message: str
    objectKind: str
    objectName: str
    component: str
    count: int
    firstSeenAt: datetime | None
    lastSeenAt: datetime | None
