"""An informer over one test's ConfigMaps, with its announcements and counts."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from random import Random

from gpuruntime.informer.informer import Informer
from gpuruntime.kube.client import Client
from gpuruntime.kube.watch import Selection
from gpuruntime.models.encoding.json import JsonObject
from gpuruntime.models.kubernetes.cluster import CONFIG_MAPS, ConfigMap
from gpuruntime.models.kubernetes.metadata import Key
from tests.eventually import eventually
from tests.proofs.conformance.objects import config_map
from tests.proofs.machinery.lines import Line

DEADLINE_SECONDS = 60.0
LABELS = {"of": "machinery"}
SELECTOR = "of=machinery"


class ShortWindows(Random):
    """Draw windows just long enough for the bookmark two seconds before their end."""

    def randint(self, a: int, b: int) -> int:  # noqa: ARG002  # as the standard library has it
        return 4


class Tally:
    """Sums by name, and by name with each label's value; `until` waits for one of them."""

    def __init__(self) -> None:
        self.sums: dict[str, float] = {}

    def count(self, name: str, amount: float = 1, /, **labels: str) -> None:
        for title in (name, *(f"{name} {value}" for value in labels.values())):
            self.sums[title] = self.sums.get(title, 0) + amount

    def gauge(self, name: str, value: float, /, **labels: str) -> None:
        pass

    def observe(self, name: str, seconds: float, /, **labels: str) -> None:
        pass

    def of(self, title: str) -> float:
        return self.sums.get(title, 0)

    async def until(self, title: str, least: float) -> None:
        await eventually(
            lambda: self.of(title), lambda sum_: sum_ >= least, within_seconds=DEADLINE_SECONDS
        )


class Mirror:
    """A process that follows the labelled ConfigMaps of a namespace."""

    def __init__(self, line: Line, namespace: str, *, rng: Random | None = None) -> None:
        self.tally = Tally()
        self.client = Client(line, meter=self.tally)
        self.informer = Informer(
            self.client,
            CONFIG_MAPS,
            rng=rng or Random(7),
            selection=Selection(namespace=namespace, label_selector=SELECTOR),
            meter=self.tally,
        )
        # The values of each name in the order of announcement; None stands for its deletion.
        self.announced: dict[str, list[str | None]] = {}
        self.informer.add_handler(self._record)

    def _record(self, key: Key, _old: ConfigMap | None, new: ConfigMap | None) -> None:
        self.announced.setdefault(key.name, []).append(None if new is None else value_of(new))

    @property
    def view(self) -> dict[str, str]:
        """Return the value of each name."""
        return {key.name: value_of(held) for key, held in self.informer.store.items()}

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run the informer. The context is entered once the first list was announced."""
        async with asyncio.TaskGroup() as tasks:
            task = tasks.create_task(self.informer.run(), name="informer")
            async with asyncio.timeout(DEADLINE_SECONDS):
                await self.informer.synced.wait()
            yield
            task.cancel()

    async def until(self, promise: Callable[[], bool]) -> None:
        await eventually(promise, within_seconds=DEADLINE_SECONDS, explain=lambda: f"{self.view}")


def body(name: str, value: str, **labels: str) -> JsonObject:
    return config_map(name, {"value": value}, labels=labels or LABELS)


def changed_to(value: str) -> JsonObject:
    return {"data": {"value": value}}


def value_of(held: ConfigMap) -> str:
    return held.data["value"]


async def make(client: Client, namespace: str, name: str, value: str = "1") -> ConfigMap:
    return await client.create(CONFIG_MAPS, body(name, value), namespace=namespace)


async def server_view(client: Client, namespace: str) -> dict[str, str]:
    """Return the server's objects in the form of a mirror's view."""
    page = await client.list_page(
        CONFIG_MAPS, namespace=namespace, label_selector=SELECTOR, limit=0
    )
    return {held.metadata.name: value_of(held) for held in page.items}
