"""A run of a function's story: workers come and go, and every call ends exactly once."""

import asyncio
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, Final, Protocol, assert_never

import attrs

from gpuruntime.models.kinds import labels, provenance
from gpuruntime.models.kinds.units import GPUUnit
from gpuruntime.models.kubernetes.metadata import Key
from tests.proofs.simulation.callers import Caller
from tests.proofs.simulation.checks.cluster_observer import STOCK, ClusterObserver
from tests.proofs.simulation.checks.invocations import Invocations
from tests.proofs.simulation.checks.unit_status import is_ready
from tests.proofs.simulation.in_process_http import Answer
from tests.proofs.simulation.stories.function_script import (
    FUNCTION_SPEC,
    Call,
    ExpectedEnd,
    FunctionStep,
    FunctionStory,
)
from tests.proofs.simulation.stories.script import ENVELOPES
from tests.proofs.simulation.virtual_time import true_time

UNITS: Final = "/gpu-units"
POOLS: Final = "/operator/stockpools"
INVOCATIONS: Final = "/serverless/invocations"
LOOK_SECONDS: Final = 1.0
# No call reaches its last attempt, however often its worker crashes.
MANY_ATTEMPTS: Final = 100
ATTEMPT_SECONDS: Final = 30
FIRST_IMAGE: Final = "serve:1"
# Longer than any request is delayed, so that a larger difference shows a wrong clock.
MISDATED_BY: Final = timedelta(seconds=300)


class StoryContext(Protocol):
    """The part of a StoryRunner that this story needs."""

    @property
    def observer(self) -> ClusterObserver: ...

    @property
    def invocations(self) -> Invocations: ...

    def caller(self, name: str) -> Caller: ...

    def unit(self, name: str) -> GPUUnit | None: ...

    def require(self, holds: object, what: str) -> None: ...

    def note(self, story: str, text: str) -> None: ...

    async def until(self, holds: Callable[[], object]) -> None: ...


class FunctionStoryRun:
    def __init__(self, context: StoryContext, story: FunctionStory) -> None:
        self._context = context
        self._story = story
        self._caller = context.caller(story.operation)

    async def run(self) -> None:
        await asyncio.sleep(self._story.begins_at)
        await self._make_pool()
        await self._declare()
        await self._until_workers(self._story.minimum)
        for step, calls in self._story.steps:
            await self._take(step, calls)
        if self._story.is_deleted:
            await self._delete()
        else:
            await self._until_idle()

    @property
    def _path(self) -> str:
        return f"{UNITS}/{self._story.name}"

    @property
    def _workers(self) -> list[GPUUnit]:
        makers = (f"{self._story.name}-w-", f"{self._story.successor}-w-")
        return [
            each
            for each in self._context.observer.units.values()
            if each.spec.is_function_worker and each.metadata.name.startswith(makers)
        ]

    async def _take(self, step: FunctionStep, calls: tuple[Call, ...]) -> None:
        match step:
            case FunctionStep.BURST:
                await self._call_all(calls)
            case FunctionStep.CALL:
                await self._call_and_wait(calls[0])
            case FunctionStep.REFUSE:
                refused = Call(name=calls[0].name, seconds=0.1, expected_end=ExpectedEnd.REFUSED)
                await self._call_all((refused, *calls[1:]))
            case FunctionStep.IDLE:
                await self._until_idle()
            case FunctionStep.SLEEP:
                await self._sleep(calls)
            case FunctionStep.IMAGE:
                await self._change_image(calls)
            case FunctionStep.EXPIRE:
                await self._expire(
                    attrs.evolve(calls[0], expected_end=ExpectedEnd.EXPIRED, life_seconds=5)
                )
            case FunctionStep.CANCEL:
                await self._cancel(
                    attrs.evolve(calls[0], seconds=10.0, expected_end=ExpectedEnd.CANCELLED)
                )
            case FunctionStep.OUTWAIT:
                await self._outwait(calls[0])
            case _:
                assert_never(step)
        self._context.note(self._story.operation, step.value)

    async def _make_pool(self) -> None:
        body = {
            "operationID": f"pool-{FUNCTION_SPEC}",
            "name": self._story.pool,
            "specName": FUNCTION_SPEC,
            "replicas": self._story.maximum,
            **ENVELOPES[FUNCTION_SPEC],
        }
        answer = (await self._caller.call("POST", POOLS, body)).answer
        self._require(answer.status in (200, 202), f"pool: {answer}")
        pools, key = self._context.observer.pools, Key(STOCK, self._story.pool)
        await self._context.until(lambda: pools[key].status.available == self._story.maximum)

    async def _declare(self) -> None:
        answer = await self._declared_by(self._story.name)
        self._require(answer.status in (200, 201), f"declared: {answer}")

    async def _declared_by(self, unit: str) -> Answer:
        story = self._story
        body = {
            "operationID": f"function-{unit}",
            "name": unit,
            "specName": FUNCTION_SPEC,
            "image": FIRST_IMAGE,
            "serverless": {
                "requestID": story.name,
                "minAvailableCount": story.minimum,
                "maxWorkers": story.maximum,
                "idleTimeoutSeconds": story.idle_seconds,
                "concurrency": story.concurrency,
                "timeoutSeconds": ATTEMPT_SECONDS,
                "maxAttempts": MANY_ATTEMPTS,
            },
        }
        return (await self._caller.call("POST", UNITS, body)).answer

    async def _call_all(self, calls: tuple[Call, ...]) -> None:
        for call in calls:
            await self._send(call)
        for call in calls:
            await self._until_ended(call)

    async def _send(self, call: Call) -> None:
        body = self._invocation(call, "async")
        answer = (await self._caller.call("POST", INVOCATIONS, body)).answer
        self._require(answer.status in (200, 202), f"{call.name}: {answer}")
        if answer.status in (200, 202):
            self._context.invocations.accept(self._story.name, call.name)

    async def _call_and_wait(self, call: Call) -> None:
        body = self._invocation(call, "sync")
        answer = (await self._caller.call("POST", INVOCATIONS, body)).answer
        self._require(answer.status in (200, 202), f"{call.name}: {answer}")
        if answer.status in (200, 202):
            self._context.invocations.accept(self._story.name, call.name)
        if answer.status == 200:
            self._check(call, answer.data)
        elif answer.status == 202:
            self._require(answer.data["completedAt"] is None, f"{call.name}: 202, but it ended")
            await self._until_ended(call)

    async def _until_ended(self, call: Call) -> None:
        path = f"{INVOCATIONS}/{call.name}?serverlessRequestID={self._story.name}"
        while True:
            answer = (await self._caller.call("GET", path)).answer
            self._require(answer.status == 200, f"{call.name} read: {answer}")
            if answer.status == 200 and answer.data["completedAt"] is not None:
                self._check(call, answer.data)
                return
            await asyncio.sleep(LOOK_SECONDS)

    def _check(self, call: Call, view: dict[str, Any]) -> None:
        """Check the final state, and that the answer is of the attempt that the record names."""
        is_so = view["state"] in call.expected_end.value
        self._require(is_so, f"{call.name}: {view['state']}: {view['error']}")
        if view["state"] == "succeeded":
            is_its = view["body"] == {"call": call.name, "attempt": view["attempt"]}
            self._require(is_its, f"{call.name}: of attempt {view['attempt']}: {view['body']}")

    async def _sleep(self, calls: tuple[Call, ...]) -> None:
        """Suspend the function, and check that calls wait until it is resumed."""
        await self._change(suspended=True)
        await self._context.until(lambda: not self._workers)
        for call in calls:
            await self._send(call)
        await asyncio.sleep(5.0)
        self._require(not self._workers, "has workers while suspended")
        await self._change(suspended=False)
        for call in calls:
            await self._until_ended(call)

    async def _outwait(self, call: Call) -> None:
        """Call the suspended function, and resume it when an attempt would be over.

        The caller waits for as long as it said, and the attempt takes longer than that.
        """
        await self._change(suspended=True)
        await self._context.until(lambda: not self._workers)
        body = self._invocation(call, "sync")
        definite = await self._caller.call("POST", INVOCATIONS, body)
        waited = asyncio.get_running_loop().time() - definite.sent_at
        is_open = definite.answer.status == 202 and definite.answer.data["completedAt"] is None
        self._require(is_open, f"{call.name}, while suspended: {definite.answer}")
        self._require(waited >= call.wait_seconds, f"{call.name}: answered after {waited:g} s")
        self._context.invocations.accept(self._story.name, call.name)
        await asyncio.sleep(ATTEMPT_SECONDS)
        await self._change(suspended=False)
        await self._until_ended(call)

    async def _cancel(self, call: Call) -> None:
        await self._send(call)
        await self._send_cancel(call)
        await self._until_ended(call)

    async def _expire(self, call: Call) -> None:
        """Let a call expire in a suspended function.

        With a wrong clock it would expire hours later; then it is cancelled instead.
        """
        await self._change(suspended=True)
        await self._context.until(lambda: not self._workers)
        await self._send(call)
        await asyncio.sleep(call.life_seconds)
        await self._change(suspended=False)
        if await self._is_misdated(call):
            call = attrs.evolve(call, expected_end=ExpectedEnd.MISDATED)
            await self._send_cancel(call)
        await self._until_ended(call)

    async def _is_misdated(self, call: Call) -> bool:
        path = f"{INVOCATIONS}/{call.name}?serverlessRequestID={self._story.name}"
        answer = (await self._caller.call("GET", path)).answer
        self._require(answer.status == 200, f"{call.name} read: {answer}")
        accepted_at = datetime.fromisoformat(answer.data["acceptedAt"])
        return abs(true_time() - accepted_at) > MISDATED_BY

    async def _send_cancel(self, call: Call) -> None:
        """Cancel a call; a repeated request after a lost answer finds that the call has ended."""
        path = f"{INVOCATIONS}/{call.name}?serverlessRequestID={self._story.name}"
        answer = (await self._caller.call("DELETE", path)).answer
        is_known = answer.status == 204 or answer.code == "already_finished"
        self._require(is_known, f"{call.name} cancelled: {answer}")

    async def _change_image(self, calls: tuple[Call, ...]) -> None:
        image = f"serve:{calls[0].name}"
        await self._change(image=image)
        await self._call_all(calls)
        await self._context.until(lambda: all(each.spec.image == image for each in self._workers))

    async def _change(self, **members: Any) -> None:
        answer = (await self._caller.call("PUT", self._path, members)).answer
        self._require(answer.status == 200, f"changed {sorted(members)}: {answer}")

    async def _delete(self) -> None:
        last_calls = [
            attrs.evolve(each, expected_end=ExpectedEnd.FUNCTION_DELETED)
            for each in self._story.last_calls
        ]
        for call in last_calls:
            await self._send(call)
        answer = (await self._caller.call("DELETE", self._path)).answer
        self._require(answer.status in (204, 404), f"deleted: {answer}")
        if self._story.is_followed:
            await self._declare_successor()
        await self._context.until(lambda: not self._context.unit(self._story.name))
        for call in last_calls:
            await self._until_ended(call)
        if self._story.is_followed:
            await self._caller.call("DELETE", f"{UNITS}/{self._story.successor}")
            await self._context.until(lambda: not self._context.unit(self._story.successor))
        await self._call_deleted_function()
        await self._context.until(lambda: not self._workers)
        self._context.note(self._story.operation, "deleted")

    async def _declare_successor(self) -> None:
        """Declare the function by another unit, which must not receive earlier calls."""
        while True:
            answer = await self._declared_by(self._story.successor)
            if answer.status in (200, 201):
                return
            self._require(answer.code == "name_taken", f"declared again: {answer}")
            await asyncio.sleep(LOOK_SECONDS)

    async def _call_deleted_function(self) -> None:
        """Call the deleted function; a replica with an old cache accepts the call, which then
        fails.
        """
        last = Call(name="call-last", seconds=0.1, expected_end=ExpectedEnd.ORPHANED)
        body = self._invocation(last, "async")
        answer = (await self._caller.call("POST", INVOCATIONS, body)).answer
        if answer.code == "function_not_found":
            return
        self._require(answer.status in (200, 202), f"called after its deletion: {answer}")
        await self._until_ended(last)

    async def _until_workers(self, count: int) -> None:
        await self._context.until(lambda: sum(map(is_ready, self._workers)) >= count)

    async def _until_idle(self) -> None:
        """Wait until only the minimum of workers is left, and none of them is leaving."""

        def is_idle() -> bool:
            staying = [each for each in self._workers if not _is_leaving(each)]
            return len(staying) == len(self._workers) == self._story.minimum

        await self._context.until(is_idle)

    def _invocation(self, call: Call, mode: str) -> dict[str, Any]:
        return {
            "invocationID": call.name,
            "serverlessRequestID": self._story.name,
            "mode": mode,
            "payload": call.payload,
            "lifeSeconds": call.life_seconds,
            "waitSeconds": call.wait_seconds,
        }

    def _require(self, holds: object, what: str) -> None:
        self._context.require(holds, f"{self._story.operation}: {what}")


def _is_leaving(worker: GPUUnit) -> bool:
    return provenance.is_terminating(worker) or labels.DRAINING in worker.metadata.annotations
