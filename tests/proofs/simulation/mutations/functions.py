"""Defects of serving functions; a seed with a function has to find each of them."""

from typing import Final

from tests.proofs.simulation.mutations.mutation import Mutation

FUNCTIONS: Final = (
    Mutation(
        "an attempt after a lost worker repeats the attempt number",
        "gpuruntime.worker.delivery_plan",
        "        attempt=record.attempt + 1,\n",
        "        attempt=record.attempt or 1,\n",
    ),
    Mutation(
        "an ended invocation runs again",
        "gpuruntime.worker.delivery_plan",
        "    if record.state.is_terminal:\n        return Drop",
        "    if False:\n        return Drop",
        "tests/rooms/worker/test_delivery_plan.py::test_an_ended_invocation_is_never_started_again",
    ),
    Mutation(
        "an invocation for another unit's function never ends",
        "gpuruntime.serverless.orphans",
        "        if walk.is_over or depth is None:\n",
        "        if True:\n",
    ),
    Mutation(
        "workers are claimed beyond their limit",
        "gpuruntime.serverless.scaling.worker_plan",
        "    asked = min(missing, max(room, 0))\n",
        "    asked = missing\n",
        # The first 20 seeds do not reach it.
        "tests/rooms/serverless/scaling/test_worker_plan.py"
        "::test_a_draining_worker_still_has_its_seat",
    ),
    Mutation(
        "the minimum of workers is not kept",
        "gpuruntime.serverless.scaling.worker_plan",
        "    return min(max(needed, limits.minAvailableCount), limits.maxWorkers)\n",
        "    return min(needed, limits.maxWorkers)\n",
    ),
    Mutation(
        "a suspended function has workers",
        "gpuruntime.serverless.scaling.observation",
        "    return Shortage.SUSPENDED if template.spec.suspended else None\n",
        "    return None\n",
    ),
    Mutation(
        "workers of an earlier image stay",
        "gpuruntime.serverless.scaling.worker_plan",
        "    if not outdated or not is_settled or ",
        "    if True or ",
    ),
    Mutation(
        "an update drains the serving worker before its successor is claimed",
        "gpuruntime.serverless.scaling.worker_plan",
        "    if failed or seen.recreating:\n",
        "    if True:\n",
    ),
    Mutation(
        "the consumer outlives its function",
        "gpuruntime.serverless.orphans",
        "        await self.consumers.remove(function)\n",
        "",
    ),
    Mutation(
        "a worker that has drained is never deleted",
        "gpuruntime.serverless.scaling.worker_plan",
        "    if worker.phase is not WorkerPhase.DRAINING:\n        return False\n",
        "    return False\n",
    ),
    Mutation(
        "an answer counts although another attempt has begun",
        "gpuruntime.bus.records",
        "                expected_sequence=expected,\n",
        "                message_id=own.token,\n",
    ),
    Mutation(
        "the wait before its start counts into an attempt",
        "gpuruntime.worker.attempt",
        "        longest = self._tools.options.attempt_seconds\n",
        "        waited = self._tools.now() - mine.record.acceptedAt\n"
        "        longest = self._tools.options.attempt_seconds - waited.total_seconds()\n",
    ),
    Mutation(
        "the patience of a synchronous caller limits the attempt",
        "gpuruntime.serverless.calling.acceptance",
        "timeoutSeconds=request.timeoutSeconds or 0",
        "timeoutSeconds=request.timeoutSeconds or request.waitSeconds",
    ),
    Mutation(
        "a synchronous caller without an answer waits on",
        "gpuruntime.serverless.calling.invocations",
        "                async with asyncio.timeout(seconds):\n",
        "                async with asyncio.timeout(None):\n",
    ),
    Mutation(
        "a synchronous caller does not wait at all",
        "gpuruntime.serverless.calling.invocations",
        "        if ended is None and seconds > 0:\n",
        "        if False:\n",
    ),
)
