"""A storage as observed, and the stage that follows from it."""

from enum import StrEnum, auto

import attrs

from gpuruntime.models.kinds import provenance
from gpuruntime.models.kinds.storages import FINALIZER, GPUStorage
from gpuruntime.models.kinds.tombstones import Tombstone
from gpuruntime.models.kubernetes.pods import Pod
from gpuruntime.models.kubernetes.volumes import Job, StorageClass, VolumeClaim
from gpuruntime.models.kubernetes.workloads import Deployment
from gpuruntime.reconcilers.storage.volume_plan import (
    GrowClaim,
    claim_write,
    foreign_claim,
)
from gpuruntime.strict.structure import Problem
from gpuruntime.strict.validation import storage_problems


class Holding(StrEnum):
    """Holding says whether a unit holds the storage."""

    FREE = auto()
    WANTED = auto()
    # The holder does not mount the storage any more, but its Pods may still do.
    KEPT = auto()
    # No Pod of the holder mounts the storage, and none can start before it is given back.
    LET_GO = auto()


@attrs.frozen(kw_only=True, slots=True)
class Observed:
    """A storage, and what its caches and the live reads of its stage say."""

    storage: GPUStorage
    holding: Holding = Holding.FREE
    # Names of storages that copy from each other, if this one closes such a cycle.
    circle: tuple[str, ...] = ()
    claim: VolumeClaim | None = None
    storage_class: StorageClass | None = None
    # The Job of the recorded run and its Pods, if the storage owns that Job.
    job: Job | None = None
    job_pods: tuple[Pod, ...] = ()
    # The storage to copy from, and the node of the Pod that mounts it.
    source: GPUStorage | None = None
    source_node: str = ""
    # The Deployment of the file server, if the storage owns it.
    server: Deployment | None = None
    server_pods: tuple[Pod, ...] = ()
    holder_pods: tuple[Pod, ...] = ()
    # A Pod, except our own helpers, mounts the storage, or an unfinished Job copies it.
    is_in_use: bool = False
    # The four below are read live, each in one stage only.
    live_claim: VolumeClaim | None = None
    tombstone: Tombstone | None = None
    words: str = ""
    pods_left: tuple[str, ...] = ()


class Stage(StrEnum):
    """Stage says what a pass is about, and so what is read live."""

    GIVING_BACK = auto()
    ENDING = auto()
    ENDED = auto()
    NEW = auto()
    INVALID = auto()
    CLAIMING = auto()
    FILLING = auto()


def stage_of(observed: Observed) -> Stage:
    """Return the stage, which follows from the caches and the holding alone."""
    storage, claim = observed.storage, observed.claim
    has_finalizer = FINALIZER in storage.metadata.finalizers
    if observed.holding is Holding.LET_GO:
        return Stage.GIVING_BACK
    if provenance.is_terminating(storage):
        return Stage.ENDING if has_finalizer else Stage.ENDED
    if not has_finalizer:
        return Stage.NEW
    if problems_of(observed):
        return Stage.INVALID
    if claim is not None and foreign_claim(storage, claim):
        return Stage.CLAIMING
    write = claim_write(storage, claim, observed.storage_class)
    return Stage.FILLING if write is None or isinstance(write, GrowClaim) else Stage.CLAIMING


def problems_of(observed: Observed) -> tuple[Problem, ...]:
    """Return the problems of the spec; a cycle of copies is one, as it would wait for ever."""
    circle = observed.circle
    if not circle:
        return tuple(storage_problems(observed.storage))
    message = (
        f"closes a circle of copies: {', '.join(circle[:-1])}; "
        "delete one of them, and make it from something else"
    )
    closed = Problem(field="spec.prepare.fromStorageName", message=message)
    return (*storage_problems(observed.storage), closed)
