"""A running informer, and a record of what its handlers received."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random

from gpuruntime.informer.informer import Informer
from gpuruntime.kube.client import Client
from gpuruntime.kube.transport import Transport
from gpuruntime.models.encoding import codec
from gpuruntime.models.encoding.json import JsonObject
from gpuruntime.models.kubernetes.metadata import Key
from tests.rooms.kube.things import THINGS, Thing


class CountingMeter:
    """A meter that sums by name, and by name and label values except the mirror."""

    def __init__(self) -> None:
        self.sums: dict[str, float] = {}
        self.gauges: dict[str, float] = {}
        # Counts by name and label values.
        self.observations: dict[str, int] = {}

    def count(self, name: str, amount: float = 1, /, **labels: str) -> None:
        details = [value for label, value in sorted(labels.items()) if label != "mirror"]
        for title in {name, " ".join([name, *details])}:
            self.sums[title] = self.sums.get(title, 0) + amount

    def gauge(self, name: str, value: float, /, **labels: str) -> None:
        self.gauges[name] = value if "mirror" in labels else -1

    def observe(self, name: str, seconds: float, /, **labels: str) -> None:  # noqa: ARG002
        title = " ".join([name, *labels.values()])
        self.observations[title] = self.observations.get(title, 0) + 1


class Heard:
    """A handler that records every announcement, and the last object under each key."""

    def __init__(self) -> None:
        self.changes: list[tuple[str, Thing | None, Thing | None]] = []
        self.last: dict[Key, Thing] = {}

    def __call__(self, key: Key, old: Thing | None, new: Thing | None) -> None:
        self.changes.append((key.name, old, new))
        if new is None:
            self.last.pop(key, None)
        else:
            self.last[key] = new

    @property
    def names(self) -> list[str]:
        return [name for name, _, _ in self.changes]


class Followed:
    """An informer of things, with a handler that records everything."""

    def __init__(self, transport: Transport, *, is_checked: bool = False) -> None:
        self.heard = Heard()
        self.meter = CountingMeter()
        self.informer = Informer(
            Client(transport),
            THINGS,
            rng=Random(7),
            meter=self.meter,
            indexes={"size": lambda found: (found.spec.size,)},
            is_checked=is_checked,
        )
        self.informer.add_handler(self.heard)

    def view(self) -> dict[Key, tuple[str, int]]:
        """Return the store in the form of the model server's objects."""
        return {
            key: (held.metadata.resourceVersion, held.spec.size)
            for key, held in self.informer.store.items()
        }

    def write(self, document: JsonObject) -> bool:
        """Write through as this process does with the server's answer to its own write."""
        return self.informer.write_through(codec.decode(codec.encode(document), Thing))


@asynccontextmanager
async def running(*informers: Informer[Thing]) -> AsyncIterator[None]:
    """Run the informers during the block; enter it after all have synced, or after a minute."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(informer.run()) for informer in informers]
        try:
            async with asyncio.timeout(60):
                for informer in informers:
                    await informer.synced.wait()
        except TimeoutError:
            pass
        yield
        for task in tasks:
            task.cancel()
