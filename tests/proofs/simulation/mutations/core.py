"""Defects of claims, of stock, and of the machinery behind every write."""

from typing import Final

from tests.proofs.simulation.mutations.mutation import Mutation

CORE: Final = (
    Mutation(
        "a claim without a guard",
        "gpuruntime.operations.claim.stock",
        "GPU_UNITS, metadata.key, marks, resource_version=metadata.resourceVersion",
        "GPU_UNITS, metadata.key, marks",
    ),
    Mutation(
        "stock changes with its pool without a guard",
        "gpuruntime.reconcilers.stock.pool_act",
        "                    following(pool),\n"
        "                    resource_version=unit.metadata.resourceVersion,\n",
        "                    following(pool),\n",
        "tests/rooms/reconcilers/stock/test_rollout.py"
        "::test_a_claim_that_lands_before_the_change_keeps_the_stock_as_it_was",
    ),
    Mutation(
        "stock is claimed before it runs its present spec",
        "gpuruntime.models.kinds.provenance",
        "if ready is not None and ready.observedGeneration not in (0, unit.metadata.generation):",
        "if False:",
        "tests/rooms/reconcilers/stock/test_rollout.py"
        "::test_stock_cannot_be_claimed_between_its_change_and_its_next_readiness",
    ),
    Mutation(
        "a pool's change reaches new stock only",
        "gpuruntime.reconcilers.stock.rollout_plan",
        "    if not stock.stale:\n",
        "    if True:\n",
    ),
    Mutation(
        "all ready stock follows at once",
        "gpuruntime.reconcilers.stock.rollout_plan",
        "max(1, len(stock.unclaimed) // PARTS) if is_proven else 1",
        "BATCH",
        "tests/rooms/reconcilers/stock/test_rollout.py"
        "::test_a_new_image_reaches_all_stock_under_its_old_names",
    ),
    Mutation(
        "a timeline is closed before the Pod is known",
        "gpuruntime.reconcilers.unit.status",
        "return moment if moment is not None and moment <= end else None",
        "return None",
        "tests/rooms/reconcilers/unit/test_status.py"
        "::test_a_pod_that_is_seen_after_its_unit_was_ready_completes_the_timeline",
    ),
    Mutation(
        "a re-used claim is released",
        "gpuruntime.operations.claim.stock",
        "if not claim.is_owned:",
        "if False:",
    ),
    Mutation(
        "stock that a unit names is claimed",
        "gpuruntime.operations.claim.stock",
        "if uid not in refusals and not self._units.store.by_index(SOURCE_UID, uid):",
        "if uid not in refusals:",
        "tests/rooms/operations/claim/test_protocol.py"
        "::test_stock_that_a_unit_names_is_not_claimed_although_it_looks_free",
    ),
    Mutation(
        "a create of unknown outcome counts as refused",
        "gpuruntime.operations.claim.protocol",
        "    return AnswerLost(translated(error))",
        "    return Refused(translated(error))",
    ),
    Mutation(
        "the tombstone is not read during a claim",
        "gpuruntime.operations.claim.protocol",
        "        tombstone = reading.result()\n",
        "        tombstone = None\n",
    ),
    Mutation(
        "replays are found in the cache only",
        "gpuruntime.operations.claim.plan",
        "    if not is_ours:\n        return Fail(error=_occupied(unit, request))",
        "    if lost is None:\n        return Fail(error=_occupied(unit, request))",
    ),
    Mutation(
        "a claim is released although its unit was created",
        "gpuruntime.operations.claim.plan",
        "        releases=not names_our_stock,\n    )",
        "        releases=True,\n    )",
    ),
    Mutation(
        "the request's hash is not compared",
        "gpuruntime.models.kinds.provenance",
        "(operation_of(value), hash_of(value)) == (operation_id, request_hash)",
        "operation_of(value) == operation_id",
    ),
    Mutation(
        "a deletion leaves no tombstone",
        "gpuruntime.operations.deletion",
        "await self._tombstones.write(resource.kind, value)",
        "pass",
    ),
    Mutation(
        "the deletion of a loser ends the operation of the winner",
        "gpuruntime.operations.units",
        "ends_operation=not has_lost",
        "ends_operation=True",
        "tests/rooms/operations/test_units.py"
        "::test_a_unit_that_lost_its_operation_leaves_no_tombstone",
    ),
    Mutation(
        "the tombstone of any unit ends the operation of a started unit",
        "gpuruntime.operations.claim.plan",
        "    return unit is None or not has_started or tombstone.covers(unit)",
        "    return True",
        "tests/rooms/operations/claim/test_protocol.py"
        "::test_the_tombstone_of_another_unit_does_not_end_the_operation_of_a_started_unit",
    ),
    Mutation(
        "several units of an operation start",
        "gpuruntime.reconcilers.unit.start_plan",
        "        if winner is not candidate:",
        "        if False and winner is not candidate:",
    ),
    Mutation(
        "a unit starts on stock that is not held for it",
        "gpuruntime.reconcilers.unit.start_plan",
        "    if not is_held_for(stock, unit):",
        "    if False:",
    ),
    Mutation(
        "a unit of a finished operation starts",
        "gpuruntime.reconcilers.unit.start_plan",
        "if tombstone is not None and tombstone.forbids(unit):",
        "if False:",
    ),
    Mutation(
        "stock is deleted before its successor starts",
        "gpuruntime.reconcilers.stock.claim_resolution_plan",
        "    if claimant.status.timeline.createdAt is None:\n        return Rest()\n",
        "",
    ),
    Mutation(
        "a claimant is compared by name only",
        "gpuruntime.models.kinds.provenance",
        "    return claimant is None or (\n"
        "        operation_of(claimant) != operation_of(stock)\n"
        "        or source_uid_of(claimant) != stock.metadata.uid\n"
        "    )",
        "    return claimant is None",
    ),
    Mutation(
        "a grace shorter than a request",
        "gpuruntime.models.kinds.claim_timing",
        "GRACE_SECONDS: Final = 90.0",
        "GRACE_SECONDS: Final = 2.0",
    ),
    Mutation(
        "stock is deleted before its ordinal is recorded",
        "gpuruntime.reconcilers.stock.claim_resolution_plan",
        "    return ordinal <= pool.status.seeded",
        "    return True",
    ),
    Mutation(
        "a claim is never freed",
        "gpuruntime.reconcilers.stock.plan",
        "            return Plan(intents=(Free(),))",
        "            return Plan(intents=())",
    ),
    Mutation(
        "stock is deleted without a guard",
        "gpuruntime.reconcilers.stock.act",
        "            uid=stock.metadata.uid,\n"
        "            resource_version=stock.metadata.resourceVersion,\n",
        "",
    ),
    Mutation(
        "a recorded ordinal is created again",
        "gpuruntime.reconcilers.stock.pool_plan",
        "used = {pool.status.seeded, *taken}",
        "used = {0, *taken}",
    ),
    Mutation(
        "an ordinal is recorded while its create is in flight",
        "gpuruntime.reconcilers.stock.pool_pass_plan",
        "is_settled = not observed.unsettled_seconds",
        "is_settled = True",
    ),
    Mutation(
        "a gap is never filled",
        "gpuruntime.reconcilers.stock.pool_plan",
        "ordinals = itertools.chain(stock.gaps, fresh)",
        "ordinals = fresh",
    ),
    Mutation(
        "an ordinal that is skipped counts as created",
        "gpuruntime.reconcilers.stock.pool_plan",
        "passed = stock.gap_count if recorded >= stock.highest else 0",
        "passed = 0",
        "tests/rooms/reconcilers/stock/test_jobs.py"
        "::test_lowered_replicas_count_no_unit_that_was_refused",
    ),
    Mutation(
        "a job counts requested units as created",
        "gpuruntime.operations.jobs",
        "        created=pool.status.created,",
        "        created=pool.spec.replicas,",
    ),
    Mutation(
        "a job succeeds before all its units are created",
        "gpuruntime.operations.jobs",
        "    if pool.status.created >= pool.spec.replicas:",
        "    if pool.status.created:",
        "tests/rooms/operations/test_jobs.py"
        "::test_status_and_created_follow_from_the_units_that_the_pool_reports",
    ),
    Mutation(
        "a job does not report refused units",
        "gpuruntime.operations.jobs",
        "(*_FAILURES, PoolReason.STOCK_FAILED, PoolReason.STOCK_SYNC_FAILED)",
        "(*_FAILURES, PoolReason.STOCK_FAILED)",
        "tests/rooms/reconcilers/stock/test_jobs.py"
        "::test_units_that_a_quota_refuses_are_not_created_and_are_the_error_of_the_job",
    ),
    Mutation(
        "a new leader trusts its old caches",
        "gpuruntime.reconcilers.wiring",
        "            await informer.catch_up()\n",
        "            pass\n",
    ),
    Mutation(
        "status is written without comparing",
        "gpuruntime.reconcilers.unit.report",
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
        "a relist does not report vanished keys",
        "gpuruntime.informer.reflector",
        "keys = [*before, *(key for key, _ in store.items() if key not in before)]",
        "keys = [key for key, _ in store.items()]",
    ),
    Mutation(
        "an old event replaces a newer object",
        "gpuruntime.informer.writer",
        "elif version > self._version_held(key, held):",
        "else:",
    ),
    Mutation(
        "a silent watch is never abandoned",
        "gpuruntime.kube.watch",
        "IDLE_LIMIT_SECONDS = 75.0",
        "IDLE_LIMIT_SECONDS = 100_000.0",
    ),
    Mutation(
        "a change of a key in progress is lost",
        "gpuruntime.workqueue.queue",
        "        if key in self._dirty:\n            self._enqueue(key, self._dirty[key][1])",
        "        self._dirty.pop(key, None)",
    ),
    Mutation(
        "a conflict is not retried",
        "gpuruntime.controller.controller",
        "            case ConflictError():\n"
        "                seconds = self._queue.add_rate_limited(key)",
        "            case ConflictError():\n                seconds = 0.0",
        # The first 20 seeds hide it: the write that won the conflict wakes the key, too.
        "tests/rooms/controller/test_controller.py::test_errors_in_a_row_back_off",
    ),
    Mutation(
        "a lease is taken from its holder",
        "gpuruntime.kube.lease",
        "        if started < self._rival_until:",
        "        if False:",
    ),
    Mutation(
        "an old list replaces a newer cache",
        "gpuruntime.informer.recovery",
        "    if version < known_version and state.stale_lists < MOST_STALE_LISTS:",
        "    if False:",
    ),
    Mutation(
        "a list continues with an expired token",
        "gpuruntime.informer.recovery",
        "        case ListFailed(error=ExpiredError()):\n"
        '            return attrs.evolve(state, continue_token="")\n',
        "",
    ),
    Mutation(
        "a lease is released while a write may land",
        "gpuruntime.roles.manager",
        "        if self._ends_clean():",
        "        if True:",
        # The first 20 seeds do not reach it.
        "tests/rooms/roles/test_hand_over.py"
        "::test_the_successor_of_a_killed_leader_keeps_the_lease_while_old_writes_may_land",
    ),
    Mutation(
        "a replay is answered with a unit that was created again",
        "gpuruntime.operations.claim.protocol",
        "        await self._demand_unfinished(ours)\n",
        "        if ours is None:\n            await self._demand_unfinished(ours)\n",
    ),
    Mutation(
        "a pool is deleted while a create of its stock may land",
        "gpuruntime.reconcilers.stock.pool_pass_plan",
        "    left = observed.unsettled_seconds if stock.highest > seeded else 0.0",
        "    left = 0.0",
    ),
    Mutation(
        "a unit of an earlier request is answered as newly created",
        "gpuruntime.operations.claim.plan",
        "        is_replay=lost is None or not names_our_stock or not is_of_this_request,",
        "        is_replay=lost is None or not names_our_stock,",
    ),
    Mutation(
        "a unit is not woken when its Deployment is rolled out",
        "gpuruntime.reconcilers.predicates",
        "    return (is_ready, is_rolled_out(deployment), deployment.refusal)",
        "    return (is_ready, True, deployment.refusal)",
    ),
    Mutation(
        "the progress of a slow start wakes no unit",
        "gpuruntime.reconcilers.unit.start_stages",
        "    return len(before) >= len(after) or is_slow(after)",
        "    return False",
    ),
    Mutation(
        "a node name is dropped while the Pod is unknown",
        "gpuruntime.reconcilers.unit.status",
        '    return unit.status.nodeName if runs else ""',
        '    return ""',
        "tests/rooms/reconcilers/unit/test_status.py"
        "::test_a_running_unit_keeps_its_node_while_its_pod_is_not_known",
    ),
    Mutation(
        "lack of stock is answered for a possibly finished operation",
        "gpuruntime.operations.claim.plan",
        "Claim() | Answer() | InsufficientCapacityError():",
        "Claim() | Answer():",
    ),
    Mutation(
        "a pool refills from a list that lacks its own creates",
        "gpuruntime.informer.writer",
        "        for key, written in draft.written.items():\n",
        "        for key, written in dict[Key, ObjectT]().items():\n",
        "tests/rooms/informer/test_writer.py::test_a_list_read_during_a_create_keeps_the_object",
    ),
    Mutation(
        "a member that another client adds to a child stays",
        "gpuruntime.reconcilers.children.drift",
        "with_guarded(applied.body if applied else {}, live)",
        "applied.body if applied else {}",
    ),
    Mutation(
        "children select Pods by the unit's name alone",
        "gpuruntime.reconcilers.unit.observed",
        "        if own is not None and labels.UNIT_UID not in own.selector:",
        "        if True:",
    ),
    Mutation(
        "a Service selects Pods by the unit's name alone",
        "gpuruntime.reconcilers.unit.children",
        '        "selector": dict(selector),\n        "ports"',
        '        "selector": {labels.UNIT: unit.metadata.name},\n        "ports"',
    ),
    Mutation(
        "a child is found by its label only",
        "gpuruntime.reconcilers.unit.reads",
        'dict.fromkeys((plain, owner.name if owner else "", unit_name(child)))',
        "(unit_name(child),)",
        "tests/rooms/reconcilers/unit/test_reads.py"
        "::test_a_child_wakes_its_unit_whatever_its_labels_say",
    ),
    Mutation(
        "an edit of a child's labels or owner wakes no unit",
        "gpuruntime.reconcilers.children.drift",
        "    return (metadata.labels, metadata.annotations, metadata.ownerReferences, "
        "bytes(live.spec))\n",
        "    return (metadata.annotations, bytes(live.spec))\n",
    ),
)
