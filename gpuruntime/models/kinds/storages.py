"""A GPUStorage is a volume that outlives the units that mount it, one at a time."""

import hashlib
from collections.abc import Callable
from typing import Annotated, ClassVar, Final

import attrs

from gpuruntime.models.definitions import rules
from gpuruntime.models.definitions.schemas import Rule, Schema
from gpuruntime.models.definitions.texts import (
    UID,
    Argument,
    ClassName,
    Image,
    Name,
    OptionalName,
    QuantityText,
)
from gpuruntime.models.encoding import codec
from gpuruntime.models.kinds.labels import GROUP
from gpuruntime.models.kinds.phases import StepPhase, StoragePhase
from gpuruntime.models.kinds.units import VERSION
from gpuruntime.models.kubernetes.conditions import Condition
from gpuruntime.models.kubernetes.metadata import ObjectMeta
from gpuruntime.models.kubernetes.names import cut_with_hash
from gpuruntime.models.kubernetes.resources import Resource

# Requests another run of a failed prepare. Its value is new each time, and part of the Job's name.
RECOVER: Final = f"{GROUP}/recover"
FINALIZER: Final = f"{GROUP}/mounted"
DIGEST_LENGTH: Final = 8


@attrs.frozen(kw_only=True, slots=True)
class Prepare:
    """Fills the volume once, before a unit mounts it, by a command or from another storage."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        rules.ONE_SOURCE,
        rules.COMMAND_FOR_IMAGE,
        rules.NO_COMMAND_FOR_COPY,
    )

    fromImage: Annotated[
        Image, Schema(description="Runs command and args with the volume at /storage.")
    ] = ""
    fromStorageName: Annotated[
        OptionalName, Schema(description="A storage of the same namespace, copied whole.")
    ] = ""
    command: Annotated[tuple[Argument, ...], Schema(maxItems=128)] = ()
    args: Annotated[tuple[Argument, ...], Schema(maxItems=256)] = ()


@attrs.frozen(kw_only=True, slots=True)
class Accessor:
    """A file server on the volume, reached through the API."""

    enabled: bool = False
    writable: bool = False


@attrs.frozen(kw_only=True, slots=True)
class GPUStorageSpec:
    RULES: ClassVar[tuple[Rule, ...]] = (rules.NEVER_SHRINKS, rules.FIXED_CLASS)

    size: Annotated[
        QuantityText, Schema(description="May grow if the class allows it; never shrinks.")
    ]
    storageClassName: Annotated[
        ClassName, Schema(description="The cluster's default class if absent.")
    ] = ""
    prepare: Prepare | None = None
    accessor: Accessor = Accessor()


@attrs.frozen(kw_only=True, slots=True)
class Holder:
    """The only unit that may mount the storage, until its Pods are gone."""

    name: Name
    uid: UID


@attrs.frozen(kw_only=True, slots=True)
class PrepareStatus:
    """`observedDigest` names the prepare that runs or has run; it never runs again by itself."""

    phase: Annotated[str, Schema(enum=("", *StepPhase))] = ""
    jobName: Annotated[str, Schema(maxLength=63)] = ""
    observedDigest: Annotated[str, Schema(maxLength=64)] = ""
    recoveryPhase: Annotated[str, Schema(enum=("", *StepPhase))] = ""

    @property
    def has_ended(self) -> bool:
        return self.phase in (StepPhase.SUCCEEDED, StepPhase.FAILED)


@attrs.frozen(kw_only=True, slots=True)
class AccessorStatus:
    phase: Annotated[str, Schema(enum=("", *StoragePhase))] = ""
    serviceName: Annotated[str, Schema(maxLength=63)] = ""
    accessURL: Annotated[str, Schema(maxLength=1024)] = ""


@attrs.frozen(kw_only=True, slots=True)
class GPUStorageStatus:
    phase: Annotated[str, Schema(enum=tuple(StoragePhase))] = ""
    claimName: Annotated[str, Schema(maxLength=63)] = ""
    capacity: Annotated[str, Schema(maxLength=64)] = ""
    holder: Holder | None = None
    mountedBy: Annotated[
        tuple[Name, ...], Schema(maxItems=16, description="The names of the units that hold it.")
    ] = ()
    prepare: PrepareStatus = PrepareStatus()
    accessor: AccessorStatus = AccessorStatus()
    observedGeneration: int = 0
    conditions: Annotated[tuple[Condition, ...], Schema(maxItems=16, listMapKey="type")] = ()


@attrs.frozen(kw_only=True, slots=True)
class GPUStorage:
    """A volume that outlives the units that mount it; one unit holds it at a time."""

    RULES: ClassVar[tuple[Rule, ...]] = (*rules.STORAGE_NAME, rules.NOT_ITSELF)

    metadata: ObjectMeta = attrs.field(factory=ObjectMeta)
    spec: GPUStorageSpec
    status: GPUStorageStatus = GPUStorageStatus()


GPU_STORAGES: Final = Resource(
    group=GROUP, version=VERSION, kind="GPUStorage", plural="gpustorages", type=GPUStorage
)


def accessor_name(storage: str) -> str:
    """Return the name of the accessor's Deployment and Service."""
    return cut_with_hash(f"storage-accessor-{storage}")


def prepare_name(storage: str, digest: str) -> str:
    """Return the name of the Job; the digest is never cut, since it distinguishes the runs."""
    ending = f"-{digest}"
    return cut_with_hash(f"storage-prepare-{storage}", longest=63 - len(ending)) + ending


def prepare_policy_name(storage: str) -> str:
    return cut_with_hash(f"storage-prepare-{storage}")


def prepare_digest(storage: GPUStorage) -> str:
    """Return the digest of one run, which changes with the prepare and with each recovery."""
    asked = codec.to_json(storage.spec.prepare) if storage.spec.prepare else {}
    return _digest(codec.encode_canonical(asked)) + _recovery(storage)


def asks_to_recover(storage: GPUStorage) -> bool:
    """Return whether a recovery was requested since the failed run.

    A prepare that was merely changed requests nothing.
    """
    prepare = storage.status.prepare
    is_asked = RECOVER in storage.metadata.annotations
    is_new = not prepare.observedDigest.endswith(_recovery(storage))
    return is_asked and is_new and prepare.phase == StepPhase.FAILED


def awaited(storage: GPUStorage) -> Prepare | None:
    """Return the prepare that has yet to succeed, or None; a filled storage depends on nothing."""
    is_filled = storage.status.prepare.phase == StepPhase.SUCCEEDED
    return None if is_filled else storage.spec.prepare


def copy_cycle(
    name: str, prepare: Prepare | None, stored: Callable[[str], GPUStorage | None]
) -> tuple[str, ...]:
    """Return the chain of copies from this storage to the name that occurs twice, or nothing.

    Storages in such a cycle would wait for each other forever.
    """
    chain = [name]
    while prepare is not None and prepare.fromStorageName:
        source = prepare.fromStorageName
        if source in chain:
            return (*chain, source)
        chain.append(source)
        found = stored(source)
        prepare = awaited(found) if found else None
    return ()


def source_in_use(storage: GPUStorage) -> str:
    """Return the name of the storage that fills this one now or soon, or an empty string."""
    prepare = storage.spec.prepare
    runs = storage.status.prepare.phase in (StepPhase.PENDING, StepPhase.RUNNING)
    return prepare.fromStorageName if prepare is not None and runs else ""


def _recovery(storage: GPUStorage) -> str:
    return _digest(storage.metadata.annotations.get(RECOVER, "").encode())


def _digest(text: bytes) -> str:
    return hashlib.sha256(text).hexdigest()[:DIGEST_LENGTH]
