"""Small defects, planted one at a time: each has to be found by some seed of the simulation."""

from typing import Final

from tests.simulate.function_mutations import FUNCTIONS
from tests.simulate.mutation import Mutation

CORE: Final = (
    Mutation(
        "a claim without a guard",
        "gpuruntime.inventory.stock",
        "GPU_UNITS, metadata.key, marks, resource_version=metadata.resourceVersion",
        "GPU_UNITS, metadata.key, marks",
    ),
    Mutation(
        "a re-used claim is released",
        "gpuruntime.inventory.stock",
        "if not claim.is_owned:",
        "if False:",
    ),
    Mutation(
        "stock that a unit names is claimed",
        "gpuruntime.inventory.stock",
        "if not self._units.store.by_index(SOURCE_UID, stock.metadata.uid):",
        "if True:",
        "tests/inventory/test_claims.py"
        "::test_stock_that_a_unit_names_is_not_claimed_although_it_looks_free",
    ),
    Mutation(
        "a create of unknown outcome counts as refused",
        "gpuruntime.inventory.claims",
        "    return Lost(translated(error))",
        "    return Refused(translated(error))",
    ),
    Mutation(
        "no tombstone is looked for beside a claim",
        "gpuruntime.inventory.claims",
        "        tombstone = burial.result()\n",
        "        tombstone = None\n",
    ),
    Mutation(
        "replays are looked for in the cache alone",
        "gpuruntime.inventory.claim_plan",
        "    if not is_ours:\n        return Fail(error=_occupied(unit, wanted))",
        "    if lost is None:\n        return Fail(error=_occupied(unit, wanted))",
    ),
    Mutation(
        "a claim goes back under the unit that was made",
        "gpuruntime.inventory.claim_plan",
        "        releases=not names_our_stock,\n    )",
        "        releases=True,\n    )",
    ),
    Mutation(
        "the request's hash is not compared",
        "gpuruntime.models.provenance",
        "(operation_of(value), hash_of(value)) == (operation_id, request_hash)",
        "operation_of(value) == operation_id",
    ),
    Mutation(
        "a deletion leaves no tombstone",
        "gpuruntime.inventory.deletion",
        "await self._tombstones.write(resource.kind, value)",
        "pass",
    ),
    Mutation(
        "several units of an operation start",
        "gpuruntime.reconcilers.start_plan",
        "        if winner is not candidate:",
        "        if False and winner is not candidate:",
    ),
    Mutation(
        "a unit starts on stock that is not held for it",
        "gpuruntime.reconcilers.start_plan",
        "    if not is_held_for(stock, unit):",
        "    if False:",
    ),
    Mutation(
        "a unit of a finished operation starts",
        "gpuruntime.reconcilers.start_plan",
        "if tombstone is not None and tombstone.forbids(unit):",
        "if False:",
    ),
    Mutation(
        "stock is deleted before its successor starts",
        "gpuruntime.reconcilers.handoff_plan",
        "    if claimant.status.timeline.createdAt is None:\n        return Rest()\n",
        "",
    ),
    Mutation(
        "a claim is believed by its claimant's name alone",
        "gpuruntime.models.provenance",
        "    return claimant is None or (\n"
        "        operation_of(claimant) != operation_of(stock)\n"
        "        or source_uid_of(claimant) != stock.metadata.uid\n"
        "    )",
        "    return claimant is None",
    ),
    Mutation(
        "a grace shorter than a request",
        "gpuruntime.models.provenance",
        "GRACE_SECONDS: Final = 90.0",
        "GRACE_SECONDS: Final = 2.0",
    ),
    Mutation(
        "stock is deleted before its ordinal is recorded",
        "gpuruntime.reconcilers.handoff_plan",
        "    return ordinal <= pool.status.seeded",
        "    return True",
    ),
    Mutation(
        "a claim is never freed",
        "gpuruntime.reconcilers.stock",
        "        await self._free(stock)\n        return DONE\n\n    def",
        "        return DONE\n\n    def",
    ),
    Mutation(
        "stock is deleted without a guard",
        "gpuruntime.reconcilers.stock",
        "            uid=stock.metadata.uid,\n"
        "            resource_version=stock.metadata.resourceVersion,\n",
        "",
    ),
    Mutation(
        "what was recorded is made again",
        "gpuruntime.reconcilers.pool_plan",
        "used = {pool.status.seeded, *taken}",
        "used = {0, *taken}",
    ),
    Mutation(
        "an ordinal is recorded while its create is on its way",
        "gpuruntime.reconcilers.pool",
        "is_settled = not self._unsettled_seconds(pool)",
        "is_settled = True",
    ),
    Mutation(
        "a gap is never filled",
        "gpuruntime.reconcilers.pool_plan",
        "ordinals = itertools.chain(stock.gaps, fresh)",
        "ordinals = fresh",
    ),
    Mutation(
        "a new leader trusts what it has seen so far",
        "gpuruntime.reconcilers.wiring",
        "            await informer.catch_up()\n",
        "            pass\n",
    ),
    Mutation(
        "status is written without comparing",
        "gpuruntime.reconcilers.running",
        "        if status == unit.status:\n            return\n",
        "",
    ),
    Mutation(
        "an expired watch is resumed",
        "gpuruntime.informer.recovery",
        "WindowEnded(error=ExpiredError() | BadRequestError() | InvalidError())",
        "WindowEnded(error=BadRequestError() | InvalidError())",
    ),
    Mutation(
        "a relist forgets to tell of keys that vanished",
        "gpuruntime.informer.reflector",
        "keys = [*before, *(key for key, _ in store.items() if key not in before)]",
        "keys = [key for key, _ in store.items()]",
    ),
    Mutation(
        "an old event is taken for news",
        "gpuruntime.informer.writer",
        "elif version > self._version_held(key, held):",
        "else:",
    ),
    Mutation(
        "a silent watch is waited for without end",
        "gpuruntime.kube.watch",
        "IDLE_LIMIT_SECONDS = 75.0",
        "IDLE_LIMIT_SECONDS = 100_000.0",
    ),
    Mutation(
        "a change during the work on a key is lost",
        "gpuruntime.workqueue.queue",
        "        if key in self._dirty:\n            self._offer(key, self._ready)",
        "        self._dirty.pop(key, None)",
    ),
    Mutation(
        "a conflict is not tried again",
        "gpuruntime.controller.controller",
        "            case ConflictError():\n"
        "                seconds = self._queue.add_rate_limited(key)",
        "            case ConflictError():\n                seconds = 0.0",
    ),
    Mutation(
        "a lease is taken from whoever holds it",
        "gpuruntime.kube.lease",
        "        if started < self._rival_until:",
        "        if False:",
    ),
    Mutation(
        "a list of the past is taken for the present",
        "gpuruntime.informer.recovery",
        "    if version < known_version and state.stale_lists < MOST_STALE_LISTS:",
        "    if False:",
    ),
    Mutation(
        "a list goes on with a token that has expired",
        "gpuruntime.informer.recovery",
        "        case ListFailed(error=ExpiredError()):\n"
        '            return attrs.evolve(state, continue_token="")\n',
        "",
    ),
)
MEDDLING: Final = "tests/audit/test_meddling.py"
STORAGES: Final = (
    Mutation(
        "a storage is mounted before it is filled",
        "gpuruntime.reconcilers.mount_plan",
        "    if phase is StoragePhase.READY:",
        "    if phase is not StoragePhase.FAILED:",
    ),
    Mutation(
        "the younger of those who wait goes first",
        "gpuruntime.reconcilers.mount_plan",
        "    return min((unit for unit in units if waits(unit))",
        "    return max((unit for unit in units if waits(unit))",
        f"{MEDDLING}::test_of_those_who_wait_the_older_one_is_next",
    ),
    Mutation(
        "a storage is taken from its holder",
        "gpuruntime.reconcilers.mount_plan",
        "        if holder is not None and holder.uid != unit.metadata.uid:",
        "        if False:",
    ),
    Mutation(
        "a storage is given back while Pods mount it",
        "gpuruntime.reconcilers.holds",
        "        if any(_uses(pod, storage) for pod in page.items):",
        "        if False:",
    ),
    Mutation(
        "who is suspended loses its storage",
        "gpuruntime.reconcilers.holds",
        "        return any(mount.name == storage.metadata.name",
        "        return not unit.spec.suspended and any(mount.name == storage.metadata.name",
    ),
    Mutation(
        "a Deployment that has no Pods is overlooked",
        "gpuruntime.reconcilers.holds",
        "        if deployment is None:\n            return False",
        "        if True:\n            return False",
    ),
    Mutation(
        "a storage is never given back",
        "gpuruntime.reconcilers.holds",
        "            if self._wants(storage, holder) or await self._may_mount(storage, holder):",
        "            if True:",
    ),
    Mutation(
        "a hold is written without a guard",
        "gpuruntime.reconcilers.storage_writes",
        "            resource_version=storage.metadata.resourceVersion,\n",
        "",
    ),
    Mutation(
        "a holder is known by its name alone",
        "gpuruntime.reconcilers.mount_plan",
        "        if holder is not None and holder.uid != unit.metadata.uid:",
        "        if holder is not None and holder.name != unit.metadata.name:",
    ),
    Mutation(
        "a prepare runs again when its Job is gone",
        "gpuruntime.reconcilers.storage_plan",
        "    if record.has_ended and not asks_to_recover(storage):",
        "    if record.has_ended and job is not None and not asks_to_recover(storage):",
        f"{MEDDLING}::test_a_prepare_whose_job_is_removed_is_not_run_again",
    ),
    Mutation(
        "a failed prepare runs again by itself",
        "gpuruntime.reconcilers.storage_plan",
        "    if record.has_ended and not asks_to_recover(storage):",
        "    if record.phase == StepPhase.SUCCEEDED and not asks_to_recover(storage):",
    ),
    Mutation(
        "a copy begins before its source is ready",
        "gpuruntime.reconcilers.prepares",
        "        if storage_phase_of(source.status.conditions) is not StoragePhase.READY:",
        "        if False:",
        f"{MEDDLING}::test_a_copy_that_is_asked_for_at_once_begins_when_its_source_is_filled",
    ),
    Mutation(
        "a storage goes while it is mounted",
        "gpuruntime.reconcilers.storage",
        "        if storage.status.holder is not None or self.holds.others_pods(storage)"
        " or is_read:",
        "        if False:",
        f"{MEDDLING}::test_a_mounted_storage_that_is_deleted_goes_when_its_unit_is_gone",
    ),
    Mutation(
        "a storage bears no finalizer",
        "gpuruntime.reconcilers.storage",
        "        if FINALIZER not in storage.metadata.finalizers:\n            finalizers = (",
        "        if False:\n            finalizers = (",
    ),
    Mutation(
        "what a storage of the same name left is taken",
        "gpuruntime.reconcilers.volume_claims",
        "    return claim.storage_uid == storage.metadata.uid",
        "    return claim.metadata.name == storage.metadata.name",
        "tests/product/test_storages.py"
        "::test_what_a_storage_left_whose_finalizer_somebody_removed_is_kept_and_told[embedded]",
    ),
    Mutation(
        "a claim that was lost is made again",
        "gpuruntime.reconcilers.storage_plan",
        "        return KeepClaim() if _had_volume(storage) else MakeClaim()",
        "        return MakeClaim()",
    ),
    Mutation(
        "a file server runs on any node",
        "gpuruntime.reconcilers.placing_plan",
        "        return Placing(node=(current_pod(placed) or placed[0]).spec.nodeName)",
        "        return Placing()",
    ),
    Mutation(
        "the Pod comes before its NetworkPolicy",
        "gpuruntime.reconcilers.running",
        "            await self._keep_way(unit, key)\n"
        "            desired = self._desired(unit)\n"
        "            deployment = await self.deployments[key.namespace].keep"
        "(unit, key, desired)\n",
        "            desired = self._desired(unit)\n"
        "            deployment = await self.deployments[key.namespace].keep"
        "(unit, key, desired)\n"
        "            await self._keep_way(unit, key)\n",
    ),
)
MUTATIONS: Final = (*CORE, *STORAGES, *FUNCTIONS)
