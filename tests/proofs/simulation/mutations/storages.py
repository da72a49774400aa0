"""Defects of storages: their holders, their prepare and their deletion."""

from typing import Final

from tests.proofs.simulation.mutations.mutation import Mutation

MEDDLING: Final = "tests/rooms/audit/test_storages_changed_by_hand.py"
HOLDERS: Final = "tests/rooms/reconcilers/storage/test_holders.py"
STORAGES: Final = (
    Mutation(
        "a storage is mounted before it is filled",
        "gpuruntime.reconcilers.storage.mount_plan",
        "    if phase is StoragePhase.READY:",
        "    if phase is not StoragePhase.FAILED:",
    ),
    Mutation(
        "the younger of two waiting units gets the storage",
        "gpuruntime.reconcilers.storage.mount_plan",
        "    return min((unit for unit in units if waits(unit))",
        "    return max((unit for unit in units if waits(unit))",
    ),
    Mutation(
        "a storage is taken from its holder",
        "gpuruntime.reconcilers.storage.mount_plan",
        "        if holder is not None and holder.uid != unit.metadata.uid:",
        "        if False:",
    ),
    Mutation(
        "a storage is released while Pods mount it",
        "gpuruntime.reconcilers.storage.holders",
        "        if any(_uses(pod, storage) for pod in page.items):",
        "        if False:",
    ),
    Mutation(
        "a suspended unit loses its storage",
        "gpuruntime.reconcilers.storage.holders",
        "        return any(mount.name == storage.metadata.name",
        "        return not unit.spec.suspended and any(mount.name == storage.metadata.name",
        # A Deployment keeps the storage as well, and no story deletes one of a suspended unit.
        f"{HOLDERS}::test_a_suspended_unit_keeps_its_storage_although_nothing_of_it_exists",
    ),
    Mutation(
        "a Deployment that has no Pods is overlooked",
        "gpuruntime.reconcilers.storage.holders",
        "        if deployment is None:\n            return False",
        "        if True:\n            return False",
    ),
    Mutation(
        "a storage is never released",
        "gpuruntime.reconcilers.storage.holders",
        "        if self._wants(storage, holder) or await self._may_mount(storage, holder):",
        "        if True:",
    ),
    Mutation(
        "a hold is written without a guard",
        "gpuruntime.reconcilers.storage.writes",
        "            resource_version=storage.metadata.resourceVersion,\n",
        "",
    ),
    Mutation(
        "a holder is compared by name only",
        "gpuruntime.reconcilers.storage.mount_plan",
        "        if holder is not None and holder.uid != unit.metadata.uid:",
        "        if holder is not None and holder.name != unit.metadata.name:",
    ),
    Mutation(
        "a prepare runs again when its Job is gone",
        "gpuruntime.reconcilers.storage.prepare_plan",
        "    if record.has_ended and not asks_to_recover(storage):",
        "    if record.has_ended and job is not None and not asks_to_recover(storage):",
    ),
    Mutation(
        "a failed prepare runs again by itself",
        "gpuruntime.reconcilers.storage.prepare_plan",
        "    if record.has_ended and not asks_to_recover(storage):",
        "    if record.phase == StepPhase.SUCCEEDED and not asks_to_recover(storage):",
    ),
    Mutation(
        "a copy begins before its source is ready",
        "gpuruntime.reconcilers.storage.prepare_plan",
        "storage_phase_of(source.status.conditions) is not StoragePhase.READY:",
        "False:",
        f"{MEDDLING}::test_a_copy_begins_once_its_source_is_filled",
    ),
    Mutation(
        "a storage is deleted while it is mounted",
        "gpuruntime.reconcilers.storage.plan",
        "    if storage.status.holder is not None or observed.is_in_use:",
        "    if False:",
    ),
    Mutation(
        "a storage has no finalizer",
        "gpuruntime.reconcilers.storage.observed",
        "    has_finalizer = FINALIZER in storage.metadata.finalizers\n",
        "    has_finalizer = True\n",
    ),
    Mutation(
        "children of an earlier storage of the same name are used",
        "gpuruntime.reconcilers.storage.children",
        "    if owner is not None and owner.uid == storage.metadata.uid:",
        "    if owner is not None and owner.name == storage.metadata.name:",
        "tests/rooms/reconcilers/storage/test_children.py",
    ),
    Mutation(
        "a lost volume claim is created again",
        "gpuruntime.reconcilers.storage.volume_plan",
        "        return None if _had_volume(storage) else MakeClaim()",
        "        return MakeClaim()",
    ),
    Mutation(
        "a file server runs on any node",
        "gpuruntime.reconcilers.storage.placement_plan",
        "        return Placing(node=(current_pod(placed) or placed[0]).spec.nodeName)",
        "        return Placing()",
    ),
    Mutation(
        "the Pod is created before its NetworkPolicy",
        "gpuruntime.reconcilers.unit.plan",
        "        intents=(*taken, *_network(observed, options), deployed),",
        "        intents=(*taken, deployed, *_network(observed, options)),",
    ),
    Mutation(
        "a late create brings a deleted storage back",
        "gpuruntime.reconcilers.storage.plan",
        "            is_late = tombstone is not None and tombstone.forbids(observed.storage)",
        "            is_late = False",
        # The first 20 seeds do not reach it.
        "tests/rooms/reconcilers/storage/test_plan.py::test_what_a_storage_needs_next",
    ),
    Mutation(
        "a storage is released while a request may still mount it",
        "gpuruntime.reconcilers.storage.holders",
        "        if self._may_start(Key(storage.metadata.namespace, holder.name)):",
        "        if False:",
        HOLDERS,
    ),
)
