"""Any sequence of calls: the queue behaves as a simple model of its contract."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

import looptime
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from gpuruntime.workqueue.queue import MOST_PASSED_OVER, Lane, WorkQueue

T = TypeVar("T")
KEYS = st.sampled_from("abcdef")
SECONDS = st.sampled_from([0.0, 0.003, 0.5, 1.0, 2.0, 10.0])


class Model:
    """The contract as plain lists, without any speed."""

    def __init__(self) -> None:
        self.waiting: dict[Lane, list[str]] = {lane: [] for lane in Lane}
        self.passed_over = dict.fromkeys(Lane, 0)
        self.processing: list[str] = []
        self.changed_meanwhile: dict[str, Lane] = {}
        self.delays: dict[str, float] = {}
        self.failures: dict[str, int] = {}

    @property
    def depth(self) -> int:
        return sum(map(len, self.waiting.values()))

    def add(self, key: str, lane: Lane) -> None:
        if key in self.processing:
            self.changed_meanwhile[key] = min(lane, self.changed_meanwhile.get(key, lane))
            return
        held = next((held for held in Lane if key in self.waiting[held]), None)
        if held is None:
            self.waiting[lane].append(key)
        elif lane < held:
            self.waiting[held].remove(key)
            self.waiting[lane].append(key)

    def add_at(self, key: str, moment: float) -> None:
        if moment < self.delays.get(key, float("inf")):
            self.delays.pop(key, None)
            self.delays[key] = moment

    def get(self) -> str:
        filled = [lane for lane in Lane if self.waiting[lane]]
        starved = [lane for lane in filled if self.passed_over[lane] >= MOST_PASSED_OVER]
        lane = (starved or filled)[0]
        key = self.waiting[lane].pop(0)
        for other in filled:
            self.passed_over[other] += 1
        self.passed_over[lane] = 0
        self.processing.append(key)
        self.delays.pop(key, None)
        return key

    def done(self, key: str) -> None:
        self.processing.remove(key)
        if key in self.changed_meanwhile:
            self.waiting[self.changed_meanwhile.pop(key)].append(key)

    def come_due(self, now: float) -> None:
        for key, moment in sorted(self.delays.items(), key=lambda item: item[1]):
            if moment <= now + 1e-6:
                del self.delays[key]
                self.add(key, Lane.NEW)

    def back_off(self, key: str) -> float:
        self.failures[key] = self.failures.get(key, -1) + 1
        return min(0.005 * 2.0 ** self.failures[key], 960.0)


class QueueAndModel(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.loop = looptime.new_event_loop()
        self.queue: WorkQueue[str] = WorkQueue("test")
        self.model = Model()

    def teardown(self) -> None:
        self.run(self.shut_down())
        self.loop.close()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(work)

    async def shut_down(self) -> None:
        self.queue.shut_down()

    @rule(key=KEYS, lane=st.sampled_from(Lane))
    def add(self, key: str, lane: Lane) -> None:
        async def add() -> None:
            self.queue.add(key, lane=lane)

        self.run(add())
        self.model.add(key, lane)

    @rule(key=KEYS, seconds=SECONDS)
    def add_after(self, key: str, seconds: float) -> None:
        async def add_after() -> None:
            self.queue.add_after(key, seconds)

        self.run(add_after())
        if seconds:
            self.model.add_at(key, self.loop.time() + seconds)
        else:
            self.model.add(key, Lane.NEW)

    @rule(key=KEYS)
    def add_rate_limited(self, key: str) -> None:
        async def add_rate_limited() -> float:
            return self.queue.add_rate_limited(key)

        expected = self.model.back_off(key)
        assert self.run(add_rate_limited()) == expected
        self.model.add_at(key, self.loop.time() + expected)

    @rule(key=KEYS)
    def forget(self, key: str) -> None:
        self.queue.forget(key)
        self.model.failures.pop(key, None)

    @precondition(lambda self: self.model.depth)
    @rule()
    def get(self) -> None:
        assert self.run(self.queue.get()) == self.model.get()

    @precondition(lambda self: self.model.processing)
    @rule(data=st.data())
    def done(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(self.model.processing))
        self.queue.done(key)
        self.model.done(key)

    @rule(seconds=SECONDS)
    def wait(self, seconds: float) -> None:
        self.run(asyncio.sleep(seconds))
        self.model.come_due(self.loop.time())

    @invariant()
    def as_many_keys_are_ready_as_the_model_says(self) -> None:
        assert self.queue.depth == self.model.depth


TestQueueAndModel = QueueAndModel.TestCase
