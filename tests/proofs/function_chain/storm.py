"""Faults during invocations: one after the other, until the test ends them."""

import asyncio
from collections import Counter
from contextlib import suppress
from random import Random
from typing import Final

from tests.proofs.function_chain.bus import Onlooker
from tests.proofs.function_chain.chain import (
    ACK_WAIT_SECONDS,
    MAIN,
    SIDECAR,
    Chain,
    go_on,
    kill,
    stop,
)

AWAY_SECONDS: Final = 20.0


class Storm:
    """Causes faults and repairs each, as an operator would: a killed process is restarted."""

    def __init__(self, chain: Chain, seen_by: Onlooker, function: str, rng: Random) -> None:
        self.seen: Counter[str] = Counter()
        self._chain = chain
        self._onlooker = seen_by
        self._function = function
        self._rng = rng

    async def run(self, until: asyncio.Event) -> None:
        """Cause each fault at least once, in random order; results are lost once, for long."""
        harms = [
            self.kill_worker,
            self.kill_function,
            self.pause_worker,
            self.kill_broker,
            self.delete_consumer,
            self.kill_api,
            self.kill_activator,
            self.kill_manager,
        ]
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.lose_results())
            while not until.is_set():
                for harm in self._rng.sample(harms, len(harms)):
                    if until.is_set() and self.seen[harm.__name__]:
                        return
                    await self._wait(until)
                    await harm()
                    self.seen[harm.__name__] += 1

    async def kill_worker(self) -> None:
        await self._kill_one(SIDECAR)

    async def kill_function(self) -> None:
        await self._kill_one(MAIN)

    async def pause_worker(self) -> None:
        with suppress(ProcessLookupError):
            stop(paused := await self._one(SIDECAR))
            await asyncio.sleep(1.5 * ACK_WAIT_SECONDS)
            go_on(paused)

    async def kill_broker(self) -> None:
        self._chain.broker.kill()
        await asyncio.sleep(self._rng.uniform(0, 1))
        await asyncio.to_thread(self._chain.broker.start)

    async def delete_consumer(self) -> None:
        await self._onlooker.delete_consumer(self._function)

    async def kill_api(self) -> None:
        await self._restart(self._rng.choice(self._chain.of_role("api")))

    async def kill_activator(self) -> None:
        await self._restart(await asyncio.to_thread(self._chain.leader, "activator"))

    async def kill_manager(self) -> None:
        await self._restart(self._rng.choice(self._chain.of_role("manager")))

    async def lose_results(self) -> None:
        """Kill the results role and its database, and restart the database first."""
        chain = self._chain
        await asyncio.sleep(self._rng.uniform(5, 10))
        assert chain.database
        chain.roles["results-1"].kill()
        await asyncio.to_thread(chain.database.kill)
        await asyncio.sleep(AWAY_SECONDS)
        chain.database.start()
        await asyncio.to_thread(chain.database.wait)
        await asyncio.to_thread(chain.start, "results-1")
        self.seen["lose_results"] += 1

    async def _kill_one(self, container: str) -> None:
        with suppress(ProcessLookupError):
            kill(await self._one(container))

    async def _one(self, container: str) -> int:
        """Wait for a process, since there may be none right after many kills."""
        pids = await asyncio.to_thread(self._chain.pids, self._function, container)
        if not pids:
            raise ProcessLookupError
        return self._rng.choice(pids)

    async def _restart(self, name: str) -> None:
        await asyncio.to_thread(self._chain.restart, name)

    async def _wait(self, until: asyncio.Event) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(self._rng.uniform(0.5, 1.5)):
                await until.wait()
