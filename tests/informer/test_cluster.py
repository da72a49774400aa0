"""An informer on a real API server: pages, versions, write-through and the comparison."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from random import Random

import pytest
import pytest_asyncio

from gpuruntime.informer.informer import Informer
from gpuruntime.kube.client import Client
from gpuruntime.kube.config import Kubeconfig
from gpuruntime.kube.http import connect
from gpuruntime.kube.watch import Selection
from gpuruntime.models.cluster import CONFIG_MAPS, ConfigMap
from gpuruntime.models.json import JsonObject
from gpuruntime.models.metadata import Key
from tests.cluster.controlplane import ControlPlane

pytestmark = pytest.mark.cluster

SELECTION = Selection(namespace="default", label_selector="informer=test")
MORE_THAN_A_PAGE = 520


@pytest_asyncio.fixture
async def client(cluster: ControlPlane) -> AsyncIterator[Client]:
    transport = await connect(Kubeconfig(str(cluster.kubeconfig)), now=lambda: datetime.now(UTC))
    yield Client(transport)
    await transport.close()


@pytest_asyncio.fixture
async def informer(client: Client) -> AsyncIterator[Informer[ConfigMap]]:
    for number in range(MORE_THAN_A_PAGE):
        await client.create(CONFIG_MAPS, body(f"informer-{number}"), namespace="default")
    yield Informer(client, CONFIG_MAPS, rng=Random(7), selection=SELECTION)
    left = await client.list_page(
        CONFIG_MAPS, namespace="default", label_selector=SELECTION.label_selector, limit=0
    )
    for each in left.items:
        await client.delete(CONFIG_MAPS, each.metadata.key)


def body(name: str) -> JsonObject:
    metadata: JsonObject = {
        "namespace": "default",
        "name": name,
        "labels": {"informer": "test"},
    }
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"a": "1"}}


@asynccontextmanager
async def running(informer: Informer[ConfigMap]) -> AsyncIterator[None]:
    async with asyncio.TaskGroup() as tasks, asyncio.timeout(60):
        task = tasks.create_task(informer.run())
        await informer.synced.wait()
        yield
        task.cancel()


async def eventually(informer: Informer[ConfigMap], promise: Callable[[], bool]) -> None:
    news = asyncio.Event()
    informer.add_handler(lambda *_: news.set())
    async with asyncio.timeout(10):
        while not promise():
            news.clear()
            await news.wait()


async def test_a_real_server_is_mirrored_page_by_page_and_then_by_events(
    client: Client, informer: Informer[ConfigMap]
) -> None:
    first, second = Key("default", "informer-0"), Key("default", "informer-1")
    async with running(informer):
        assert len(informer.store) == MORE_THAN_A_PAGE

        changed = await client.patch(CONFIG_MAPS, first, {"data": {"a": "2"}})
        await client.delete(CONFIG_MAPS, second)
        await eventually(informer, lambda: informer.store.get(first) == changed)
        await eventually(informer, lambda: second not in informer.store)


async def test_what_was_deleted_is_not_brought_back_by_the_late_answer_to_its_write(
    client: Client, informer: Informer[ConfigMap]
) -> None:
    key = Key("default", "informer-2")
    async with running(informer):
        written = await client.patch(CONFIG_MAPS, key, {"data": {"a": "2"}})
        await client.delete(CONFIG_MAPS, key)
        await eventually(informer, lambda: key not in informer.store)
        assert not informer.write_through(written)


async def test_catching_up_with_a_real_server_ends(
    client: Client, informer: Informer[ConfigMap]
) -> None:
    key = Key("default", "informer-3")
    async with running(informer):
        written = await client.patch(CONFIG_MAPS, key, {"data": {"a": "2"}})
        await informer.catch_up()
        assert informer.store.get(key) == written
