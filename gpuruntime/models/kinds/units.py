"""A GPUUnit is one runtime with a fixed envelope, held in stock or active for a caller."""

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, ClassVar, Final, TypeAlias

import attrs

from gpuruntime.models.definitions import rules
from gpuruntime.models.definitions.schemas import Rule, Schema
from gpuruntime.models.definitions.texts import (
    Image,
    LabelValue,
    MountPath,
    Name,
    QuantityText,
    Scheme,
    SpecName,
    SshKey,
)
from gpuruntime.models.kinds import labels
from gpuruntime.models.kinds.functions import Serverless, ServerlessStatus
from gpuruntime.models.kinds.labels import GROUP
from gpuruntime.models.kinds.phases import UnitPhase
from gpuruntime.models.kinds.templates import Template
from gpuruntime.models.kubernetes.conditions import Condition
from gpuruntime.models.kubernetes.metadata import Key, ObjectMeta
from gpuruntime.models.kubernetes.names import cut_with_hash
from gpuruntime.models.kubernetes.resources import Resource
from gpuruntime.models.kubernetes.timestamps import MicroTime

VERSION: Final = "v1alpha1"
MOST_GPUS: Final = 10_000
MOST_GENERATIONS: Final = 1_000_000_000
CHILD_PREFIX: Final = "unit-"
# The fields that a unit takes over from its stock; a caller chooses the others.
ENVELOPE: Final = ("specName", "cpu", "memory", "gpu", "gpuProduct")


class Readiness(StrEnum):
    TCP = "tcp"
    NONE = "none"


@attrs.frozen(kw_only=True, slots=True)
class Access:
    """The access to an active unit with ports."""

    SHOWN: ClassVar[Mapping[str, Any]] = {"slug": str, "urls": dict[str, str]}

    primaryPort: Annotated[
        str, Schema(maxLength=15, description="The name of a port; the first port if absent.")
    ] = ""
    scheme: Scheme = "http"
    readiness: Annotated[
        str,
        Schema(
            enum=tuple(Readiness),
            description="tcp: Ready waits until the primary port accepts connections.",
        ),
    ] = Readiness.TCP
    wake: Annotated[
        bool, Schema(description="If true, a request for the suspended unit may resume it.")
    ] = False
    sshKeys: Annotated[
        tuple[SshKey, ...], Schema(maxItems=20, description="Public keys that may log in by SSH.")
    ] = ()
    generation: Annotated[
        int,
        Schema(
            minimum=0,
            maximum=MOST_GENERATIONS,
            description="Raising it by 1 ends all tickets of before; it never falls.",
        ),
    ] = 0


@attrs.frozen(kw_only=True, slots=True)
class StorageMount:
    """A GPUStorage of the same namespace, and its path in the container."""

    RULES: ClassVar[tuple[Rule, ...]] = (rules.PLAIN_MOUNT_PATH, rules.FREE_MOUNT_PATH)

    name: Name
    mountPath: MountPath
    readOnly: bool = False


GatewayURL: TypeAlias = Annotated[str, Schema(maxLength=512)]
StorageMounts: TypeAlias = Annotated[
    tuple[StorageMount, ...],
    Schema(maxItems=16),
    rules.UNIQUE_STORAGES,
    rules.UNIQUE_MOUNT_PATHS,
    rules.APART_MOUNT_PATHS,
]


PullSecrets: TypeAlias = Annotated[
    tuple[Name, ...],
    Schema(maxItems=8, description="Secrets with logins to the registries of the image."),
]


@attrs.frozen(kw_only=True, slots=True)
class GPUUnitSpec:
    """The envelope (specName, cpu, memory, gpu, gpuProduct) is fixed; the rest may change."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        *rules.ENVELOPE,
        rules.PRIMARY_PORT,
        rules.ONE_WORKER_FOR_STORAGE,
        rules.SOCKET_OFF_STORAGES,
        rules.FILES_OFF_STORAGES,
        rules.FILES_OFF_SOCKET,
        rules.SAME_OWNER,
        rules.RISING_GENERATION,
        rules.RISING_BY_ONE,
    )

    specName: Annotated[SpecName, rules.IMMUTABLE]
    image: Image = ""
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
    template: Template = Template()
    access: Access = Access()
    storageMounts: StorageMounts = ()
    imagePullSecrets: PullSecrets = ()
    serverless: Serverless | None = None
    suspended: Annotated[
        bool, Schema(description="If true, no Pod runs; the unit keeps its storage and its name.")
    ] = False

    @property
    def is_function_template(self) -> bool:
        """Return whether the unit declares a function; its workers are other units.

        Such a unit runs no Pod itself.
        """
        return self.serverless is not None and self.serverless.workerOf is None

    @property
    def is_function_worker(self) -> bool:
        return self.serverless is not None and self.serverless.workerOf is not None


@attrs.frozen(kw_only=True, slots=True)
class Timeline:
    """The time of each step of the unit; acceptedAt and claimedAt are by the API's clock."""

    acceptedAt: MicroTime | None = None
    claimedAt: MicroTime | None = None
    createdAt: datetime | None = None
    scheduledAt: datetime | None = None
    startedAt: MicroTime | None = None
    readyAt: MicroTime | None = None


@attrs.frozen(kw_only=True, slots=True)
class AccessStatus:
    """A gateway serves the unit at these addresses; `urls` are by the names of its TCP ports.

    `gatewayReady` says whether a replica of the gateway is ready, once that is known.
    """

    slug: Annotated[str, Schema(maxLength=63)] = ""
    urls: Annotated[dict[str, GatewayURL], Schema(maxProperties=32)] = attrs.field(factory=dict)
    gatewayReady: bool | None = None


@attrs.frozen(kw_only=True, slots=True)
class GPUUnitStatus:
    phase: Annotated[str, Schema(enum=tuple(UnitPhase))] = ""
    readyReplicas: int = 0
    observedGeneration: int = 0
    serviceName: Annotated[str, Schema(maxLength=63)] = ""
    accessURL: Annotated[str, Schema(maxLength=1024)] = ""
    access: AccessStatus = AccessStatus()
    nodeName: Annotated[str, Schema(maxLength=253)] = ""
    timeline: Timeline = Timeline()
    serverless: ServerlessStatus | None = None
    conditions: Annotated[tuple[Condition, ...], Schema(maxItems=16, listMapKey="type")] = ()


@attrs.frozen(kw_only=True, slots=True)
class GPUUnit:
    """A runtime with a fixed envelope: a reservation in the stock namespace, else a user's."""

    RULES: ClassVar[tuple[Rule, ...]] = rules.UNIT_NAME

    metadata: ObjectMeta = attrs.field(factory=ObjectMeta)
    spec: GPUUnitSpec
    status: GPUUnitStatus = GPUUnitStatus()


GPU_UNITS: Final = Resource(
    group=GROUP, version=VERSION, kind="GPUUnit", plural="gpuunits", type=GPUUnit
)


def selector_of(unit: GPUUnit) -> dict[str, str]:
    """Return the labels that only the Pods of this unit have."""
    return {labels.UNIT: unit.metadata.name, labels.UNIT_UID: unit.metadata.uid}


def child_key(unit: GPUUnit) -> Key:
    """Return the key that all children of the unit share, at most as long as a DNS label."""
    return Key(unit.metadata.namespace, cut_with_hash(f"{CHILD_PREFIX}{unit.metadata.name}"))
