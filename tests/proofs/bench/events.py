"""The time from the sending of an event to its reconcile, at a fixed rate and at saturation.

python -m tests.proofs.bench.events informer|dicts|models RATE COUNT
"""

import asyncio
import json
import sys
import time
from random import Random
from typing import Any

from kubernetes_asyncio.client import ApiClient, Configuration, CoreV1Api
from kubernetes_asyncio.watch import Watch

from gpuruntime.controller.controller import DONE, Controller, Result
from gpuruntime.informer.informer import Informer
from gpuruntime.kube.client import Client
from gpuruntime.models.kubernetes.metadata import Key
from gpuruntime.workqueue.queue import WorkQueue
from tests.proofs.bench.pod_server import PODS, SENT_AT, pod_server, transport_to

EXISTING_PODS = 2_000


class Reconciles:
    """Records how many seconds after its sending each event was reconciled."""

    def __init__(self, expected: int) -> None:
        self.seconds: list[float] = []
        self.events = 0
        self.finished = asyncio.Event()
        self._expected = expected

    def event(self) -> None:
        self.events += 1

    def note(self, sent_at: str) -> None:
        self.seconds.append(time.monotonic() - float(sent_at))

    def check_finished(self) -> None:
        if self.events >= self._expected:
            self.finished.set()


async def informer(url: str, seen: Reconciles) -> None:
    queue: WorkQueue[Key] = WorkQueue("bench")
    async with transport_to(url) as transport:
        mirror = Informer(Client(transport), PODS, rng=Random(1))

        async def reconcile(key: Key) -> Result:
            pod = mirror.store.get(key)
            if pod is not None and SENT_AT in pod.metadata.annotations:
                seen.note(pod.metadata.annotations[SENT_AT])
            seen.check_finished()
            return DONE

        def notice(key: Key, old: object, _: object) -> None:
            if old is not None:
                seen.event()
                queue.add(key)

        mirror.add_handler(notice)
        controller = Controller("bench", queue, reconcile, workers=4)
        async with asyncio.TaskGroup() as tasks:
            running = [
                tasks.create_task(mirror.run(), name="inform"),
                tasks.create_task(controller.run(), name="reconcile"),
            ]
            await seen.finished.wait()
            for task in running:
                task.cancel()


async def library(url: str, seen: Reconciles, *, as_models: bool) -> None:
    """Read the events with the Watch of kubernetes_asyncio, without a queue or controller."""
    async with ApiClient(Configuration(host=url)) as client, Watch() as watch:
        core = CoreV1Api(client)
        if not as_models:
            watch.return_type = "object"
        async for event in watch.stream(core.list_pod_for_all_namespaces, resource_version="1"):
            held: Any = event["raw_object"]
            seen.event()
            seen.note(held["metadata"]["annotations"][SENT_AT])
            seen.check_finished()
            if seen.finished.is_set():
                return


async def main(variant: str, rate: float, count: int) -> None:
    seen = Reconciles(count)
    async with pod_server(pods=EXISTING_PODS, events=count, rate=rate) as url:
        started = time.perf_counter()
        if variant == "informer":
            await informer(url, seen)
        else:
            await library(url, seen, as_models=variant == "models")
        seconds = time.perf_counter() - started
    ordered = sorted(seen.seconds)
    sys.stdout.write(
        json.dumps(
            {
                "p50": ordered[len(ordered) // 2],
                "p99": ordered[int(len(ordered) * 0.99)],
                "rate": count / seconds,
            }
        )
    )


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], float(sys.argv[2]), int(sys.argv[3])))
