"""Rules of storages: a hold ends, a prepare runs once, and stock holds nothing."""

from collections.abc import Iterator
from typing import Final

from gpuruntime.audit.breach import Finding, reference_to
from gpuruntime.audit.index import SnapshotIndex
from gpuruntime.models.kinds.phases import StepPhase
from gpuruntime.models.kinds.provenance import is_terminating
from gpuruntime.models.kinds.storages import GPUStorage
from gpuruntime.models.kinds.units import GPUUnit
from gpuruntime.models.kubernetes.metadata import Key
from gpuruntime.models.kubernetes.pods import Pod
from gpuruntime.models.kubernetes.volumes import Job

# The end of the last Pod may be missed, and another leader may have to take over.
GIVE_BACK_SECONDS: Final = 300.0


def hold_ends(storage: GPUStorage, index: SnapshotIndex) -> Iterator[Finding]:
    """A hold is for a unit that mounts the storage, or for the unit's remaining Pods.

    The manager gets a while to notice the end, and a suspended unit may hold the storage forever.
    """
    holder = storage.status.holder
    if holder is None or index.mounting.get(storage.metadata.key):
        return
    unit = index.unit_by_key.get(Key(storage.metadata.namespace, holder.name))
    is_wanted = (
        unit is not None
        and unit.metadata.uid == holder.uid
        and any(mount.name == storage.metadata.name for mount in unit.spec.storageMounts)
    )
    if not is_wanted:
        yield Finding(
            objects=(reference_to(storage),),
            message=f"{reference_to(storage)} is held by unit {holder.name} ({holder.uid}), "
            "which does not mount it",
            remedy="see that a manager leads, which gives it back",
            allowed_seconds=GIVE_BACK_SECONDS,
            version=holder.uid,
        )


def prepared_once(storage: GPUStorage, index: SnapshotIndex) -> Iterator[Finding]:
    """A run is recorded before its Job is created, and none begins before the last one has ended.

    Earlier Jobs are allowed. A recorded Job may not exist yet, even if a Job of a deleted storage
    still has its name. The Pod of a deleted Job may remain, and writes until it ends.
    """
    record, own = storage.status.prepare, index.jobs_of[storage.metadata.uid]
    recorded = index.job_by_key.get(Key(storage.metadata.namespace, record.jobName))
    running = [job for job in own if _is_running(job)]
    strange = [job for job in running if job.metadata.name != record.jobName]
    pods = index.filling[storage.metadata.key]
    runs = {job.metadata.uid for job in running} | {_run_of(pod) for pod in pods}
    fault = ""
    if len(runs) > 1:
        fault = f"is filled by {len(runs)} runs at once"
    elif strange:
        fault = f"is filled by a Job that is not the recorded {record.jobName or 'none'}"
    elif running and record.phase in (StepPhase.SUCCEEDED, StepPhase.FAILED):
        fault = f"is filled again, after its prepare ended ({record.phase})"
    elif recorded and recorded not in own and record.phase not in ("", StepPhase.PENDING):
        fault = f"takes Job {record.jobName} of another one for its own ({record.phase})"
    if fault:
        yield Finding(
            objects=(reference_to(storage), *map(reference_to, running), *map(reference_to, pods)),
            message=f"{reference_to(storage)} {fault}",
            remedy="delete the Jobs and their Pods, look at what is on the volume, and ask to "
            "recover",
        )


def stock_is_empty(stock: GPUUnit, index: SnapshotIndex) -> Iterator[Finding]:
    """Stock runs nothing for callers, so it mounts no storage and holds none."""
    held = index.held_by[stock.metadata.uid]
    names = {each.metadata.name for each in held}
    names |= {mount.name for mount in stock.spec.storageMounts}
    if names:
        yield Finding(
            objects=(reference_to(stock), *map(reference_to, held)),
            message=f"{reference_to(stock)} is stock, and has storages: "
            f"{', '.join(sorted(names))}",
            remedy="delete the stock unit, unless it is claimed",
        )


def _run_of(pod: Pod) -> str:
    owner = pod.metadata.controller_owner
    return owner.uid if owner else pod.metadata.uid


def _is_running(job: Job) -> bool:
    is_over = job.has_succeeded or job.has_failed or is_terminating(job)
    return not (is_over or job.spec.suspend)
