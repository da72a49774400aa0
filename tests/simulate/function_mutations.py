"""Defects of whoever serves functions: each has to be found by a seed that has one."""

from typing import Final

from tests.simulate.planter import Mutation

FUNCTIONS: Final = (
    Mutation(
        "an attempt that follows a lost worker has the number of that one's",
        "gpuruntime.worker.fence",
        "        attempt=record.attempt + 1,\n",
        "        attempt=record.attempt or 1,\n",
    ),
    Mutation(
        "what has ended is run again",
        "gpuruntime.worker.fence",
        "    if record.state.is_terminal:\n        return Drop",
        "    if False:\n        return Drop",
        "tests/worker/test_fence.py::test_what_has_ended_is_never_started_again",
    ),
    Mutation(
        "what was sent to another unit's function never ends",
        "gpuruntime.serverless.takeovers",
        "        if walk.is_over or depth is None:\n",
        "        if True:\n",
    ),
    Mutation(
        "workers are claimed beyond their limit",
        "gpuruntime.serverless.scale_plan",
        "    asked = min(missing, max(room, 0))\n",
        "    asked = missing\n",
    ),
    Mutation(
        "nobody keeps the workers that must be available",
        "gpuruntime.serverless.scale_plan",
        "    return min(max(needed, limits.minAvailableCount), limits.maxWorkers)\n",
        "    return min(needed, limits.maxWorkers)\n",
    ),
    Mutation(
        "a suspended function has workers",
        "gpuruntime.serverless.observation",
        "    return Shortage.SUSPENDED if template.spec.suspended else None\n",
        "    return None\n",
    ),
    Mutation(
        "workers of an earlier image stay",
        "gpuruntime.serverless.scale_plan",
        "    return min(outdated, key=_dispensability).name\n",
        '    return ""\n',
    ),
    Mutation(
        "the consumer outlives its function",
        "gpuruntime.serverless.gone_functions",
        "        await self.consumers.remove(function)\n",
        "",
    ),
    Mutation(
        "a worker that has drained is never deleted",
        "gpuruntime.serverless.scale_plan",
        "    if worker.phase is not WorkerPhase.DRAINING:\n        return False\n",
        "    return False\n",
    ),
    Mutation(
        "an answer counts although another attempt has begun",
        "gpuruntime.bus.records",
        "                expected_sequence=expected,\n",
        "                message_id=own.token,\n",
    ),
)
