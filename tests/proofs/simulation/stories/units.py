"""The runner of all stories, and the stories of units, stock and pools with their checks."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import suppress
from functools import partial
from random import Random
from typing import Any, Final

import attrs

from gpuruntime.kube.client import Client
from gpuruntime.kube.errors import NotFoundError
from gpuruntime.models.kinds.claim_timing import REQUEST_LIFE_SECONDS
from gpuruntime.models.kinds.pools import STOCK_POOLS
from gpuruntime.models.kinds.units import GPU_UNITS, GPUUnit
from gpuruntime.models.kubernetes.metadata import Key
from gpuruntime.models.kubernetes.workloads import DEPLOYMENTS, Deployment
from gpuruntime.operations.hashing import derived_name
from tests.proofs.simulation.callers import Caller, DefiniteAnswer
from tests.proofs.simulation.checks.cluster_observer import INSTANCE, STOCK, ClusterObserver
from tests.proofs.simulation.checks.invocations import Invocations
from tests.proofs.simulation.checks.unit_status import is_ready, reason_of
from tests.proofs.simulation.event_log import EventLog
from tests.proofs.simulation.processes import Supervisor
from tests.proofs.simulation.stories.children import edit_children, remake
from tests.proofs.simulation.stories.direct_writes import (
    restore,
    resume_without_room,
    start_slowly,
    write_directly,
)
from tests.proofs.simulation.stories.functions import FunctionStoryRun
from tests.proofs.simulation.stories.script import (
    BROKEN,
    ENVELOPES,
    SCARCE,
    ContestStory,
    PoolStory,
    Script,
    SeedStory,
    Step,
    UnitStory,
)
from tests.proofs.simulation.stories.secrets import use_secret
from tests.proofs.simulation.stories.stock import ShrinkingPoolStoryRun, make_namesakes
from tests.proofs.simulation.stories.storage_changes import StorageChangeStoryRun
from tests.proofs.simulation.stories.storages import StorageStoryRun

LOOK_SECONDS: Final = 1.0
# The two requests are accepted at different moments, which show the one that made the unit.
DOUBLED_GAP_SECONDS: Final = 0.001
# Their pauses add up to the deadline of a request.
LATE_REPLAYS: Final = 4
LATE_REPLAY_SECONDS: Final = 15.0
# The prefix of the names of the stories' tasks.
STORY: Final = "story "
UNITS: Final = "/gpu-units"
PORTS: Final = {"ports": [{"name": "http", "port": 8080}]}
CRASHING: Final = {
    "command": ["serve"],
    "envs": [{"name": "SIMULATE_FAIL", "value": "crash=3: no weights"}],
}


@attrs.frozen(kw_only=True)
class StoryRunner:
    """Runs the stories of a script; `kubectl` bypasses the API and never fails."""

    seed: int
    replicas: dict[str, Supervisor]
    kubectl: Client
    observer: ClusterObserver
    invocations: Invocations
    event_log: EventLog
    breach: Callable[[str], None]
    # The result of each story, for the comparison of runs.
    results: dict[str, list[str]] = attrs.field(factory=dict)

    def caller(self, name: str) -> Caller:
        rng = Random(f"{self.seed} caller {name}")
        return Caller(name, rng, self.replicas, self.event_log, self.breach)

    async def run(self, script: Script) -> None:
        async with asyncio.TaskGroup() as tasks:
            for name, story in self._stories(script):
                tasks.create_task(story, name=f"{STORY}{name}")

    def _stories(self, script: Script) -> Iterator[tuple[str, Coroutine[Any, Any, None]]]:
        """Yield each story with its name."""
        yield from ((each.operation, UnitStoryRun(self, each).run()) for each in script.units)
        yield from ((each.operation, self.contest(each)) for each in script.contests)
        yield from ((each.operation, self.seed_stock(each)) for each in script.seeds)
        yield from ((each.operation, self.keep_pool(each)) for each in script.pools)
        for storage in script.storages:
            yield storage.operation, StorageStoryRun(self, storage).run()
        for shrinking in script.shrinking_pools:
            yield shrinking.name, ShrinkingPoolStoryRun(self, shrinking).run()
        yield from ((each.name, make_namesakes(self, each)) for each in script.namesakes)
        yield from ((each.name, restore(self, each)) for each in script.restored)
        for storage_change in script.storage_changes:
            yield storage_change.operation, StorageChangeStoryRun(self, storage_change).run()
        for function in script.functions:
            yield function.operation, FunctionStoryRun(self, function).run()
        yield from ((each.name, write_directly(self, each)) for each in script.direct)
        yield from ((each.name, resume_without_room(self, each)) for each in script.resumed)
        yield from ((each.name, start_slowly(self, each)) for each in script.late_nodes)
        yield from ((each.name, use_secret(self, each)) for each in script.secrets)
        yield from ((each.name, edit_children(self, each)) for each in script.edited)
        yield from ((each.name, remake(self, each)) for each in script.remade)

    def note(self, story: str, text: str) -> None:
        self.results.setdefault(story, []).append(text)
        self.event_log.write(story, text)

    def require(self, holds: object, what: str) -> None:
        if not holds:
            self.breach(what)

    def unit(self, name: str) -> GPUUnit | None:
        return self.observer.units.get(Key(INSTANCE, name))

    async def until(self, holds: Callable[[], object]) -> None:
        while not holds():  # noqa: ASYNC110  # virtual time costs nothing
            await asyncio.sleep(LOOK_SECONDS)

    async def seed_stock(self, story: SeedStory) -> None:
        await asyncio.sleep(story.begins_at)
        caller, path = self.caller(story.operation), "/operator/stock-units"
        body = {
            "operationID": story.operation,
            "specName": story.spec_name,
            "replicas": story.replicas,
            **ENVELOPES[story.spec_name],
        }
        if story.is_doubled:
            answers = [
                each.answer for each in await caller.call_both("POST", path, (body, body), 0.0)
            ]
        else:
            answers = [(await caller.call("POST", path, body)).answer]
        for answer in answers:
            self.require(answer.status in (200, 202), f"{story.operation}: {answer}")
        again = (await caller.call("POST", path, body)).answer
        # If the answer to the first request was lost, the repeated one is answered 200.
        self.require(again.status in (200, 202), f"{story.operation} again: {again}")
        path_of_pool = f"{STOCK}/{derived_name(story.operation)}"
        is_single = self.observer.object_counts[STOCK_POOLS.kind, path_of_pool].created == 1
        self.require(is_single, f"{story.operation}: its pool was created more than once")
        other = (await caller.call("POST", path, {**body, "replicas": story.replicas + 1})).answer
        self.require(other.code == "operation_conflict", f"{story.operation}, other body: {other}")
        job = await self._job(caller, story)
        while job.get("status") != "succeeded":
            await asyncio.sleep(LOOK_SECONDS)
            job = await self._job(caller, story)
        self.note(story.operation, f"created {job['created']}")

    async def _job(self, caller: Caller, story: SeedStory) -> dict[str, Any]:
        """Return the job, or nothing; require that it counts no unit that was not created."""
        answer = (await caller.call("GET", f"/operator/jobs/{story.operation}")).answer
        self.require(answer.status == 200, f"job {story.operation}: {answer}")
        if answer.status != 200:
            return {}
        pool = self.observer.pools[Key(STOCK, derived_name(story.operation))]
        made = self.observer.ordinals(pool.metadata.uid).total()
        least = story.replicas if answer.data["status"] == "succeeded" else 0
        is_true = answer.data["created"] <= made >= least
        self.require(is_true, f"{story.operation}: {made} units were created, and {answer}")
        return dict(answer.data)

    async def keep_pool(self, story: PoolStory) -> None:
        await asyncio.sleep(story.begins_at)
        caller, path = self.caller(story.operation), "/operator/stockpools"
        body = {
            "operationID": story.operation,
            "name": story.name,
            "specName": story.spec_name,
            "replicas": story.sizes[0],
            **_running(story.images[0]),
            **ENVELOPES[story.spec_name],
        }
        made = (await caller.call("POST", path, body)).answer
        self.require(made.status in (200, 202), f"{story.operation}: {made}")
        for size, image in zip(story.sizes[1:], story.images[1:], strict=True):
            await asyncio.sleep(story.pause)
            change = {"replicas": size, **_running(image)}
            put = (await caller.call("PUT", f"{path}/{story.name}", change)).answer
            is_done = put.status == 200 and put.data["replicas"] == size
            self.require(is_done, f"{story.operation} to {size}: {put}")
        if not story.is_deleted:
            key = Key(STOCK, story.name)
            await self.until(lambda: self._has_followed(key, story))
            return
        await asyncio.sleep(story.pause)
        gone = (await caller.call("DELETE", f"{path}/{story.name}")).answer
        self.require(gone.status in (204, 404), f"{story.operation} deleted: {gone}")
        late = (await caller.call("POST", path, body)).answer
        self.require(late.code == "operation_finished", f"{story.operation}, late replay: {late}")
        await self.until(lambda: Key(STOCK, story.name) not in self.observer.pools)
        left = [
            each for each in self.observer.stock.values() if each.spec.specName == story.spec_name
        ]
        self.require(not left, f"{story.operation}: its stock exists after its deletion")

    def _has_followed(self, key: Key, story: PoolStory) -> bool:
        """Return whether the pool has its last size, and all of it runs its last image."""
        status = self.observer.pools[key].status
        return (status.available, status.stale) == (story.sizes[-1], 0)

    async def contest(self, story: ContestStory) -> None:
        """Send two bodies for one operation: only one unit may start; the other one is deleted."""
        await asyncio.sleep(story.begins_at)
        caller = self.caller(story.operation)
        first, second = (
            {"operationID": story.operation, "specName": "ample", "image": "a:1", "name": name}
            for name in story.names
        )
        while True:
            answers = await caller.call_both("POST", UNITS, (first, second), story.gap)
            codes = {each.answer.code for each in answers}
            # Each may meet a mark that an earlier attempt of the other has left.
            if "insufficient_capacity" not in codes and codes != {"operation_conflict"}:
                break
            await asyncio.sleep(5.0)
        await self.until(lambda: any(is_ready(self.unit(name)) for name in story.names))
        # A request whose caller has given up may still create the other unit.
        with suppress(TimeoutError):
            async with asyncio.timeout(REQUEST_LIFE_SECONDS):
                await self.until(lambda: all(map(self.unit, story.names)))
        losers = [each for each in map(self.unit, story.names) if each and not is_ready(each)]
        for loser in losers:
            name = loser.metadata.name
            await self.until(partial(self._has_lost, name))
            await caller.call("DELETE", f"{UNITS}/{name}")
        for body in (first, second):
            if losers and body["name"] not in {each.metadata.name for each in losers}:
                await self._replay_of_winner(caller, story.operation, body)
        self.note(story.operation, "one started")

    async def _replay_of_winner(
        self, caller: Caller, operation: str, body: dict[str, Any]
    ) -> None:
        """Repeat the winner's request; a cache that lags may still show only the loser."""
        while True:
            replay = (await caller.call("POST", UNITS, body)).answer
            if replay.code != "operation_conflict":
                break
            await asyncio.sleep(LOOK_SECONDS)
        self.require(replay.status == 200, f"{operation}, the winner's: {replay}")

    def _has_lost(self, name: str) -> bool:
        return reason_of(self.unit(name)) == "OperationConflict"


class UnitStoryRun:
    def __init__(self, runner: StoryRunner, story: UnitStory) -> None:
        self._runner = runner
        self._story = story
        self._caller = runner.caller(story.operation)
        self._name = story.unit_name
        self._uid = ""

    async def run(self) -> None:
        await asyncio.sleep(self._story.begins_at)
        if not await self._create():
            return
        for step in self._story.steps:
            await self._take(step)

    @property
    def _path(self) -> str:
        return f"{UNITS}/{self._name}"

    async def _create(self) -> bool:
        """Create the unit, unless its pool is used up; return whether the unit exists."""
        story, runner = self._story, self._runner
        while True:
            if story.is_doubled:
                answers = await self._caller.call_both(
                    "POST", UNITS, (story.body, story.body), DOUBLED_GAP_SECONDS
                )
                made = [each for each in answers if each.answer.status == 201]
                self._require(len(made) < 2, "both of two requests were answered 201")
            else:
                answers = (await self._caller.call("POST", UNITS, story.body),) * 2
            if any(self._names_the_unit(each) for each in answers):
                unit = runner.unit(self._name)
                self._uid = unit.metadata.uid if unit else ""
                runner.note(story.operation, "created")
                return True
            if story.spec_name == SCARCE and self._pool_is_used_up():
                return False
            await asyncio.sleep(5.0)

    def _pool_is_used_up(self) -> bool:
        observer = self._runner.observer
        pools = [each for each in observer.pools.values() if each.spec.specName == SCARCE]
        return any(each.status.consumed >= each.spec.replicas for each in pools)

    def _names_the_unit(self, definite: DefiniteAnswer) -> bool:
        """Return whether the answer is 200 or 201; it must name a unit of the operation."""
        answer, story, runner = definite.answer, self._story, self._runner
        if answer.code == "insufficient_capacity":
            is_true = runner.observer.was_short(story.spec_name, definite.sent_at)
            runner.require(
                is_true, f"{story.operation}: insufficient capacity although stock is free"
            )
            return False
        if answer.status not in (200, 201):
            runner.breach(f"{story.operation}: {answer}")
            return False
        is_ours = (
            answer.data["operationID"] == story.operation and answer.data["name"] == self._name
        )
        runner.require(is_ours, f"{story.operation}: answered with another unit")
        is_known = self._name in runner.observer.names_of[story.operation]
        runner.require(
            is_known, f"{story.operation}: answered {answer} with a unit that never existed"
        )
        return True

    async def _take(self, step: Step) -> None:
        steps: dict[Step, Callable[[], Awaitable[None]]] = {
            Step.REPLAY: self._replay,
            Step.REPLAY_TO_BOTH: self._replay_to_both,
            Step.OTHER_BODY: self._send_other_body,
            Step.WAIT: self._until_ready,
            Step.IMAGE: self._change_image,
            Step.CRASH: self._crash,
            Step.PORTS: lambda: self._change(template=PORTS),
            Step.NO_PORTS: lambda: self._change(template={}),
            Step.SUSPEND: self._suspend,
            Step.RESUME: self._resume,
            Step.DROP_DEPLOYMENT: self._drop_deployment,
            Step.DELETE: self._delete,
            Step.LATE_REPLAY: self._replay_late,
            Step.DELETE_WITH_KUBECTL: self._delete_with_kubectl,
        }
        await steps[step]()

    async def _replay(self) -> None:
        self._require_replay(await self._caller.call("POST", UNITS, self._story.body))

    async def _replay_to_both(self) -> None:
        bodies = (self._story.body, self._story.body)
        for definite in await self._caller.call_both("POST", UNITS, bodies, 0.0):
            self._require_replay(definite)

    async def _send_other_body(self) -> None:
        body = {**self._story.body, "image": "other:1"}
        self._require_code("operation_conflict", await self._caller.call("POST", UNITS, body))

    async def _replay_late(self) -> None:
        """Repeat the request of a deleted unit until no earlier create can land any more."""
        for _ in range(LATE_REPLAYS):
            definite = await self._caller.call("POST", UNITS, self._story.body)
            self._require_code("operation_finished", definite)
            await asyncio.sleep(LATE_REPLAY_SECONDS)

    async def _change_image(self) -> None:
        await self._change(image=f"{self._story.image}-new", template={})

    async def _crash(self) -> None:
        await self._change(template=CRASHING)
        await self._until_reason("PodStartupFailed")

    async def _suspend(self) -> None:
        await self._change(suspended=True)
        await self._until_reason("ScaledToZero")

    async def _resume(self) -> None:
        await self._change(suspended=False)
        await self._until_ready()

    async def _delete(self) -> None:
        answer = (await self._caller.call("DELETE", self._path)).answer
        self._require(answer.status in (204, 404), f"deleted: {answer}")
        await self._until_gone()

    async def _delete_with_kubectl(self) -> None:
        await self._runner.kubectl.delete(GPU_UNITS, Key(INSTANCE, self._name))

    def _require_replay(self, definite: DefiniteAnswer) -> None:
        unit = self._runner.unit(self._name)
        self._require(definite.answer.status == 200, f"replay: {definite.answer}")
        self._require(
            unit and unit.metadata.uid == self._uid, "replay: answered with another unit"
        )

    def _require_code(self, code: str, definite: DefiniteAnswer) -> None:
        self._require(definite.answer.code == code, f"{definite.answer} instead of {code}")

    async def _change(self, **members: Any) -> None:
        answer = (await self._caller.call("PUT", self._path, members)).answer
        self._require(answer.status == 200, f"changed {sorted(members)}: {answer}")
        if answer.status == 200 and "image" in members:
            self._require(answer.data["image"] == members["image"], "the answer lacks the change")

    async def _until_ready(self) -> None:
        """Wait until the API shows the unit as Ready with its current spec."""
        while True:
            answer = (await self._caller.call("GET", self._path)).answer
            self._require(answer.status == 200, f"read: {answer}")
            unit = self._runner.unit(self._name)
            if answer.status == 200 and answer.data["phase"] == "Ready" and is_ready(unit):
                return
            await asyncio.sleep(LOOK_SECONDS)

    async def _until_gone(self) -> None:
        """Wait until this unit is gone; a late create may bring another of its name."""

        def is_gone() -> bool:
            unit = self._runner.unit(self._name)
            return unit is None or unit.metadata.uid != self._uid

        await self._runner.until(is_gone)

    async def _drop_deployment(self) -> None:
        """Delete the unit's Deployment, and wait for another one."""
        dropped = await self._deployment_other_than("")
        await self._runner.kubectl.delete(DEPLOYMENTS, dropped.metadata.key)
        await self._deployment_other_than(dropped.metadata.uid)

    async def _deployment_other_than(self, uid: str) -> Deployment:
        while True:
            found = await self._deployment()
            if found is not None and found.metadata.uid != uid:
                return found
            await asyncio.sleep(LOOK_SECONDS)

    async def _deployment(self) -> Deployment | None:
        key = Key(INSTANCE, f"unit-{self._name}")
        try:
            return await self._runner.kubectl.get(DEPLOYMENTS, key)
        except NotFoundError:
            return None

    async def _until_reason(self, reason: str) -> None:
        await self._runner.until(lambda: reason_of(self._runner.unit(self._name)) == reason)

    def _require(self, holds: object, what: str) -> None:
        self._runner.require(holds, f"{self._story.operation}: {what}")


def _running(image: str) -> dict[str, Any]:
    """Return the members of a pool whose stock runs the image."""
    return {"image": image, "template": CRASHING if image == BROKEN else {}}
