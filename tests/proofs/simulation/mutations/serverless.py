"""Defects of functions, workers and invocations, each with the test that has to fail.

Those tests run an activator, a broker or both, at moments that the simulation does not reach.
"""

from typing import Final

from tests.proofs.simulation.mutations.mutation import Mutation

PLAN: Final = "gpuruntime.serverless.scaling.worker_plan"
FENCE: Final = "gpuruntime.worker.delivery_plan"
SCALE_PLAN: Final = "tests/rooms/serverless/scaling/test_worker_plan.py"
SCALING: Final = "tests/rooms/serverless/scaling/test_reconciler.py"
ACTIVATOR: Final = "tests/rooms/serverless/scaling/test_activator.py"
FENCED: Final = "tests/rooms/worker/test_delivery_plan.py"
ACCEPTANCE: Final = "tests/rooms/serverless/calling/test_acceptance.py"
WORKER: Final = "tests/rooms/worker/test_worker.py"
WORKERS: Final = (
    Mutation(
        "a draining worker does not count against the limit",
        PLAN,
        "    room = seen.limits.maxWorkers - len(seen.workers)",
        "    room = seen.limits.maxWorkers - len(staying)",
        SCALE_PLAN,
    ),
    Mutation(
        "a worker is deleted without a drain",
        PLAN,
        "    if worker.has_drained:\n        return True",
        "    if True:\n        return True",
        SCALING,
    ),
    Mutation(
        "a worker whose drain never ends is kept",
        PLAN,
        "    return silence or worker.since_seconds >= limits.timeoutSeconds + "
        "DRAIN_SLACK_SECONDS",
        "    return silence",
        SCALING,
    ),
    Mutation(
        "a worker with a failed container is replaced",
        PLAN,
        "        if worker.phase is WorkerPhase.ADRIFT\n"
        "        and worker.since_seconds >= LASTING_SECONDS\n",
        "        if worker.phase in (WorkerPhase.ADRIFT, WorkerPhase.FAILED)\n",
        SCALING,
    ),
    Mutation(
        "a broken template keeps claiming stock",
        PLAN,
        "    if _is_broken(staying):",
        "    if False:",
        SCALE_PLAN,
    ),
    Mutation(
        "workers are removed while the queue depth is unknown",
        PLAN,
        "        needed = len(seen.staying)",
        "        needed = 0",
        SCALING,
    ),
    Mutation(
        "the minimum of workers holds only while there is work",
        PLAN,
        "    return min(max(needed, limits.minAvailableCount), limits.maxWorkers)",
        "    least = limits.minAvailableCount if needed else 0\n"
        "    return min(max(needed, least), limits.maxWorkers)",
        SCALE_PLAN,
    ),
    Mutation(
        "a changed template replaces all workers at once",
        PLAN,
        "    if not outdated or not is_settled or any(worker.is_leaving for worker in outdated):",
        "    if not outdated:",
        SCALE_PLAN,
    ),
    Mutation(
        "a starting successor is drained as surplus",
        PLAN,
        "    return max(unready, key=_drain_order, default=None) if is_updating else None",
        "    return None",
        SCALE_PLAN,
    ),
    Mutation(
        "a new leader counts the successor of an update as demand",
        PLAN,
        " - (len(generations) > 1)",
        "",
        f"{SCALING}::test_a_new_leader_continues_an_update_without_further_workers",
    ),
    Mutation(
        "other words of a failing worker are not read",
        "gpuruntime.serverless.scaling.observation",
        "    words = ready.message if phase_of(unit.status.conditions) is UnitPhase.FAILED "
        'else ""',
        '    words = ""',
        "tests/rooms/serverless/scaling/test_triggers.py",
    ),
    Mutation(
        "all incarnations of a worker are one operation",
        "gpuruntime.serverless.scaling.worker_units",
        '        return f"gpuruntime:worker:{template.metadata.uid}:{token}"',
        '        return f"gpuruntime:worker:{template.metadata.uid}:{token[:0]}"',
        SCALING,
    ),
    Mutation(
        "an open claim is started again",
        "gpuruntime.serverless.scaling.worker_units",
        "        except _OPEN as error:\n",
        "        except _OPEN as error:\n            del self._open[seat]\n",
        SCALING,
    ),
    Mutation(
        "a drain is not recorded",
        "gpuruntime.serverless.scaling.actions",
        "                await self.workers.mark_draining(seen.units[name])\n",
        "",
        SCALING,
    ),
    Mutation(
        "a drain is ordered only once",
        "gpuruntime.serverless.scaling.actions",
        "            case OrderDrain(name):\n"
        "                await self._order_drain(seen.units[name])\n",
        "            case OrderDrain(name):\n                pass\n",
        f"{ACTIVATOR}::test_a_drain_order_is_repeated_until_the_worker_is_deleted",
    ),
    Mutation(
        "a refused claim is retried at every reconcile",
        "gpuruntime.serverless.scaling.observation",
        "            free_stock=len(free_stock) if held_seconds is None else 0,",
        "            free_stock=len(free_stock),",
        SCALING,
    ),
    Mutation(
        "workers of a unit that owns no function are kept",
        "gpuruntime.serverless.scaling.observation",
        "        strays = tuple(strays_of(self.units, function))\n",
        "        strays = ()\n",
        "tests/rooms/audit/test_functions_at_work.py",
    ),
    Mutation(
        "the younger of two that declare a function gets the workers",
        "gpuruntime.operations.lookup.repository",
        "    return min(templates, key=provenance.seniority, default=None)",
        "    return max(templates, key=provenance.seniority, default=None)",
        SCALING,
    ),
    Mutation(
        "the status of a function is written without a version",
        "gpuruntime.serverless.scaling.report",
        "                resource_version=template.metadata.resourceVersion,\n",
        "",
        f"{SCALING}::test_no_status_is_written_to_a_later_unit_of_the_templates_name",
    ),
    Mutation(
        "a drain is recorded without a version",
        "gpuruntime.serverless.scaling.worker_units",
        "                resource_version=worker.metadata.resourceVersion,\n",
        "",
        f"{SCALING}::test_no_drain_mark_is_written_to_a_later_unit_of_the_workers_name",
    ),
    Mutation(
        "a new leader counts existing workers as no demand",
        "gpuruntime.serverless.scaling.history",
        "        return cls(uid=uid, demand=Demand(workers, now))",
        "        return cls(uid=uid, demand=Demand(0 * workers, now))",
        SCALING,
    ),
    Mutation(
        "the idle time includes an outage of the broker",
        "gpuruntime.serverless.scaling.history",
        "            self.demand.note(self.demand.current, now)\n",
        "            pass\n",
        SCALING,
    ),
    Mutation(
        "a worker counts as silent while the connection was lost",
        "gpuruntime.serverless.scaling.observation",
        "        last = max(heard.at, self.receiving_since) if heard else self.receiving_since",
        "        last = heard.at if heard else 0.0",
        "tests/rooms/serverless/scaling/test_observation.py",
    ),
    Mutation(
        "an unread depth counts as no work",
        "gpuruntime.serverless.scaling.queue_depths",
        "        self._depths = None\n\n    def wake",
        "        self._depths = {}\n\n    def wake",
        "tests/rooms/serverless/scaling/test_queue_depths.py",
    ),
    Mutation(
        "a wake is cleared by a poll that began before it",
        "gpuruntime.serverless.scaling.queue_depths",
        "        self._woken.difference_update(woken)",
        "        self._woken.clear()",
        "tests/rooms/serverless/scaling/test_queue_depths.py",
    ),
)
INVOCATIONS: Final = (
    Mutation(
        "the first delivery starts without a record",
        "gpuruntime.worker.attempt",
        "                return await self._tools.records.write(record, expected=revision)",
        "                return StoredRecord(record, revision)",
        f"{WORKER}::test_an_invocation_without_its_record_is_dropped",
    ),
    Mutation(
        "an invocation for another unit's function runs",
        FENCE,
        '    if len({record.declarer, declarer} - {""}) > 1:\n',
        "    if False:\n",
        FENCED,
    ),
    Mutation(
        "an attempt that takes over repeats the attempt number",
        FENCE,
        "        attempt=record.attempt + 1,",
        "        attempt=max(record.attempt, 1),",
        FENCED,
    ),
    Mutation(
        "a message of an older series starts",
        FENCE,
        "    if record.series != invocation.series:",
        "    if False:",
        FENCED,
    ),
    Mutation(
        "an ended invocation starts again",
        FENCE,
        "    if record.state.is_terminal:",
        "    if False:",
        FENCED,
    ),
    Mutation(
        "a copy of a running message starts as well",
        FENCE,
        "    if record.state is State.RUNNING and record.sequence != sequence:",
        "    if False:",
        FENCED,
    ),
    Mutation(
        "a message is acked before its end is written",
        "gpuruntime.worker.attempt",
        "        record = conclusion.record\n        while",
        "        record = conclusion.record\n        await self._ack(record.state.value)\n"
        "        while",
        f"{WORKER}::test_a_failed_attempt_is_retried_until_the_last_makes_a_dead_letter",
    ),
    Mutation(
        "an end overwrites any record",
        "gpuruntime.worker.outcome_writer",
        "        return await self._records.write(shortened, expected=expected, ttl_seconds=ttl)",
        "        return await self._records.write(\n"
        "            shortened,\n"
        "            expected=(await self._records.read(\n"
        "                record.serverlessRequestID, record.invocationID)).revision,\n"
        "            ttl_seconds=ttl,\n"
        "        )",
        f"{WORKER}::test_the_result_of_an_attempt_that_was_taken_over_is_rejected",
    ),
    Mutation(
        "a dead letter is not written before its record",
        "gpuruntime.worker.outcome_writer",
        "        if record.state is State.DEAD_LETTERED:\n",
        "        if False:\n",
        f"{WORKER}::test_a_failed_attempt_is_retried_until_the_last_makes_a_dead_letter",
    ),
    Mutation(
        "an attempt that was never sent is used up",
        "gpuruntime.worker.outcomes",
        "                attrs.evolve(record, forgiven=record.forgiven + 1),",
        "                record,",
        "tests/rooms/worker/test_outcomes.py",
    ),
    Mutation(
        "a worker goes on after it stood still",
        "gpuruntime.worker.delivery_lease",
        "            if loop_time() - ran_at > self._options.ack_wait_seconds:",
        "            if False:",
        f"{WORKER}::test_a_worker_suspended_for_longer_than_the_ack_wait_gives_up_its_calls",
    ),
    Mutation(
        "a redrive continues the old series",
        "gpuruntime.serverless.calling.dead_letters",
        "        series=letter.series + 1,\n",
        "        series=letter.series,\n",
        "tests/rooms/serverless/calling/test_dead_letters.py::test_many_redrives_at_once_run_the_invocation_once",
    ),
    Mutation(
        "a full queue keeps the record of a refused invocation",
        "gpuruntime.serverless.calling.acceptance",
        "        except FullError as error:\n            await self._take_back(queued)\n",
        "        except FullError as error:\n",
        f"{ACCEPTANCE}::test_a_full_queue_leaves_nothing_of_a_rejected_invocation",
    ),
    Mutation(
        "another request is answered with the invocation of the same id",
        "gpuruntime.serverless.calling.acceptance",
        "        if record.requestHash != wanted.requestHash:",
        "        if False:",
        f"{ACCEPTANCE}::test_an_id_is_rejected_for_another_request",
    ),
    Mutation(
        "a refused write counts as a repetition of the stored record",
        "gpuruntime.bus.records",
        "        if current is not None and current.record.token == own.token:\n"
        "            return current\n        raise ConflictError",
        "        if current is not None:\n            return current\n        raise ConflictError",
        "tests/rooms/bus/test_records.py",
    ),
    Mutation(
        "a write of unknown outcome counts as done",
        "gpuruntime.bus.records",
        "        if current is None or current.record.token != own.token:",
        "        if current is None:",
        "tests/rooms/bus/test_records.py",
    ),
    Mutation(
        "a running invocation is ended although its worker exists",
        "gpuruntime.serverless.orphans",
        "        if has_workers and stored.record.state is State.RUNNING:",
        "        if False:",
        "tests/rooms/serverless/test_orphans.py",
    ),
    Mutation(
        "invocations of a deleted function are left open",
        "gpuruntime.serverless.orphans",
        "        if not await self.orphans.end(function, has_workers=has_workers):\n"
        "            return False\n",
        "",
        f"{ACTIVATOR}::test_invocations_of_a_deleted_function_end_and_its_consumer_is_deleted",
    ),
    Mutation(
        "a function counts as deleted by the cache only",
        "gpuruntime.serverless.orphans",
        "                await self.catch_up()\n",
        "                pass\n",
        f"{ACTIVATOR}::test_a_function_that_is_not_cached_yet_keeps_its_invocations",
    ),
    Mutation(
        "an ended invocation expires",
        "gpuruntime.serverless.results.expiry",
        "    if record.state.is_terminal:\n        return Keep()\n",
        "",
        "tests/rooms/serverless/results/test_expiry.py",
    ),
)
SERVERLESS: Final = (*WORKERS, *INVOCATIONS)
