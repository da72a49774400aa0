"""Intents of a storage's plan, and what can come of them."""

from typing import TypeAlias

import attrs

from gpuruntime.models.encoding.json import JsonObject
from gpuruntime.models.kubernetes.volumes import Job, VolumeClaim
from gpuruntime.reconcilers.children.drift import Child
from gpuruntime.reconcilers.storage.children import Placing
from gpuruntime.reconcilers.storage.status import Findings
from gpuruntime.reconcilers.storage.verdict import StorageVerdict
from gpuruntime.reconcilers.storage.volume_plan import ClaimWrite


@attrs.frozen(slots=True)
class GiveBack:
    """Record that no unit holds the storage."""


@attrs.frozen(slots=True)
class AddFinalizer:
    """Add our finalizer, before the first child is created."""


@attrs.frozen(slots=True)
class RemoveLate:
    """Delete the storage: its create landed after its operation had ended."""


@attrs.frozen(slots=True)
class CreateJob:
    """Isolate the run, then create its Job, suspended."""

    policy: Child
    body: JsonObject


@attrs.frozen(slots=True)
class ReleaseJob:
    """Isolate the run, then unsuspend its Job."""

    policy: Child | None
    job: Job


@attrs.frozen(slots=True)
class ServeFiles:
    """Keep the file server, isolated and reachable before it runs."""

    policy: Child
    service: Child
    deployment: Child
    placing: Placing


@attrs.frozen(slots=True)
class StopServing:
    """Delete the file server: a prepare must be the only writer of the volume."""


@attrs.frozen(slots=True)
class LetGo:
    """Write the tombstone, delete the claim, then remove the finalizer.

    No other controller deletes the claim, so it comes before the finalizer.
    """

    claim: VolumeClaim | None


Intent: TypeAlias = (
    GiveBack
    | AddFinalizer
    | RemoveLate
    | ClaimWrite
    | CreateJob
    | ReleaseJob
    | ServeFiles
    | StopServing
    | LetGo
)


@attrs.frozen(kw_only=True, slots=True)
class Plan:
    """Writes in order, what to report after them, and when to look again.

    What follows a write that ends the pass is for the case that the cluster refuses that write.
    """

    intents: tuple[Intent, ...] = ()
    # A verdict alone is about a storage that is being deleted; None reports nothing.
    findings: Findings | StorageVerdict | None = None
    again_seconds: float | None = None


@attrs.frozen(kw_only=True, slots=True)
class Written:
    """All intents were carried out; these verdicts replace the planned ones."""

    volume: StorageVerdict | None = None
    prepare: StorageVerdict | None = None
    accessor: StorageVerdict | None = None
    # The cluster refused a write, and may accept it later without any event.
    is_refused: bool = False


@attrs.frozen(slots=True)
class Overtaken:
    """A write changed what the plan was decided by, so the next pass begins at once."""


Outcome: TypeAlias = Written | Overtaken
