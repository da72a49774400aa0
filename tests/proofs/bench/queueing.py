"""The rate of keys through the queue, alone and with a controller behind it."""

import asyncio
import json
import sys
import time

from gpuruntime.controller.controller import DONE, Controller, Result
from gpuruntime.workqueue.queue import Lane, WorkQueue

CYCLES = 200_000
KEYS = 100_000


async def cycles() -> float:
    queue: WorkQueue[int] = WorkQueue("bench")
    started = time.perf_counter()
    for number in range(CYCLES):
        queue.add(number)
        queue.done(await queue.get())
    return CYCLES / (time.perf_counter() - started)


async def reconciles() -> float:
    queue: WorkQueue[int] = WorkQueue("bench")
    finished = asyncio.Event()
    left = KEYS

    async def reconcile(_: int) -> Result:
        nonlocal left
        left -= 1
        if not left:
            finished.set()
        return DONE

    for number in range(KEYS):
        queue.add(number, lane=Lane.BACKLOG)
    started = time.perf_counter()
    async with asyncio.TaskGroup() as tasks:
        controller = Controller("bench", queue, reconcile, workers=8)
        running = tasks.create_task(controller.run(), name="run")
        await finished.wait()
        running.cancel()
    return KEYS / (time.perf_counter() - started)


async def main() -> None:
    sys.stdout.write(json.dumps({"cycles": await cycles(), "reconciles": await reconciles()}))


if __name__ == "__main__":
    asyncio.run(main())
