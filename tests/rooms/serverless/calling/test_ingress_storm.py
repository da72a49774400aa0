"""Persistent callers, two replicas, a short queue and a killed broker: nothing is lost."""

import asyncio
from collections import Counter
from random import Random

import attrs

from gpuruntime.models.kinds.invocations import State
from gpuruntime.serverless.errors import QueueAwayError, QueueFullError, UnknownOutcomeError
from tests.eventually import eventually
from tests.rooms.bus.broker import SMALL, Broker
from tests.rooms.operations.cluster import Cluster
from tests.rooms.serverless.calling.ingress import Site, asked, declare_function, site
from tests.rooms.worker.conftest import ACK_WAIT_SECONDS
from tests.rooms.worker.workers import Ledger, ended, until_empty, working

CALLERS = 12
INVOCATIONS = 240
KILLS = 3


class Callers:
    """Send invocations to either replica, and repeat each until it is accepted."""

    def __init__(self, replicas: list[Site], rng: Random) -> None:
        self.told: Counter[str] = Counter()
        self.accepted: list[str] = []
        self._replicas = replicas
        self._rng = rng
        self._names = iter([f"n{number}" for number in range(INVOCATIONS)])

    async def run(self) -> None:
        for name in self._names:
            while not await self._send(name):  # noqa: ASYNC110 - as a caller does
                await asyncio.sleep(self._rng.uniform(0.01, 0.1))
            self.accepted.append(name)
            if self._rng.random() < 0.2:
                await self._send(name)

    async def _send(self, name: str) -> bool:
        acceptance = self._rng.choice(self._replicas).ingress.acceptance
        try:
            accepted = await acceptance.accept(asked(name, payload=name))
        except (QueueFullError, QueueAwayError, UnknownOutcomeError) as error:
            self.told[error.code] += 1
            return False
        self.told["duplicate" if accepted.is_duplicate else "new"] += 1
        return True


async def harm(broker: Broker, replicas: list[Site], callers: Callers) -> None:
    """Kill the broker in the middle, and again once all have reconnected."""
    for kill in range(KILLS):
        due = INVOCATIONS * (kill + 1) // (KILLS + 2)
        await eventually(lambda due=due: len(callers.accepted) >= due)  # type: ignore[misc]  # bound at once
        broker.kill()
        broker.start()
        await eventually(lambda: not any(each.ingress.queue.problem for each in replicas))


async def test_every_accepted_invocation_ends_and_none_runs_twice(own: Broker) -> None:
    cluster, ledger = Cluster(), Ledger()
    declare_function(cluster)
    short = attrs.evolve(SMALL, most_queued_per_function=CALLERS // 2)
    async with (
        site(
            own.url, "storm", cluster=cluster, streams=short, ack_wait_seconds=ACK_WAIT_SECONDS
        ) as one,
        site(own.url, "storm", cluster=cluster, seed=6) as other,
        working(one.bus, ledger.handle, concurrency=2),
    ):
        callers = Callers([one, other], Random(8))
        async with asyncio.TaskGroup() as tasks:
            for _ in range(CALLERS):
                tasks.create_task(callers.run())
            tasks.create_task(harm(own, [one, other], callers))
        assert len(callers.accepted) == INVOCATIONS
        for name in callers.accepted:
            assert (await ended(one.bus, name)).state is State.SUCCEEDED
        await until_empty(one.bus)
    assert {name for name, _ in ledger.started} == set(callers.accepted)
    assert callers.told["queue_full"], callers.told
    assert callers.told["duplicate"], callers.told
