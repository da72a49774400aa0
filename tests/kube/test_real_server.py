"""The elector's and the recorder's writes as a real API server takes them."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from random import Random

import pytest
import pytest_asyncio

from gpuruntime.kube.client import Client
from gpuruntime.kube.config import Kubeconfig
from gpuruntime.kube.events import EventRecorder, reference_to
from gpuruntime.kube.http import HttpTransport, connect
from gpuruntime.kube.lease import Elector, LeaseOptions
from gpuruntime.kube.version import server_version
from gpuruntime.models.cluster import EVENTS, LEASES
from gpuruntime.models.metadata import Key, ObjectMeta
from tests.cluster.controlplane import ControlPlane

pytestmark = pytest.mark.cluster


def now() -> datetime:
    return datetime.now(UTC)


@pytest_asyncio.fixture
async def transport(cluster: ControlPlane) -> AsyncIterator[HttpTransport]:
    made = await connect(Kubeconfig(str(cluster.kubeconfig)), now=now)
    yield made
    await made.close()


async def lead_once(transport: HttpTransport, key: Key, identity: str) -> None:
    """Until it leads, and then to its clean end."""
    elector = Elector(
        transport,
        LeaseOptions(key=key, identity=identity),
        clock=asyncio.get_running_loop().time,
        now=now,
        rng=Random(1),
    )
    async with asyncio.timeout(30), asyncio.TaskGroup() as group:
        running = group.create_task(elector.run())
        await elector.leading.wait()
        lease = await Client(transport).get(LEASES, key)
        assert lease.spec.holderIdentity == identity
        assert lease.spec.renewTime is not None
        running.cancel()


async def test_a_lease_is_made_released_and_taken_over(transport: HttpTransport) -> None:
    key = Key("default", "test-elector")
    await lead_once(transport, key, "first")
    released = await Client(transport).get(LEASES, key)
    assert released.spec.holderIdentity == ""
    await lead_once(transport, key, "second")
    assert (await Client(transport).get(LEASES, key)).spec.leaseTransitions == 1


class Sent:
    def __init__(self) -> None:
        self.one_more = asyncio.Event()

    def count(self, name: str, _amount: float = 1, /, **_labels: str) -> None:
        assert name == "events_sent_total"
        self.one_more.set()

    def gauge(self, name: str, value: float, /, **labels: str) -> None:
        pass

    def observe(self, name: str, seconds: float, /, **labels: str) -> None:
        pass


async def test_an_event_is_made_and_counted_up(transport: HttpTransport) -> None:
    client, sent = Client(transport), Sent()
    recorder = EventRecorder(
        client, component="gpuruntime-test", now=now, rng=Random(1), meter=sent
    )
    about = reference_to(LEASES, ObjectMeta(namespace="default", name="test-events", uid="u1"))
    async with asyncio.timeout(30), asyncio.TaskGroup() as group:
        running = group.create_task(recorder.run())
        for _ in range(2):
            recorder.record(about, "Tested", "ü" * 2000, is_warning=True)
            await sent.one_more.wait()
            sent.one_more.clear()
        running.cancel()
    selector = "involvedObject.name=test-events"
    page = await client.list_page(EVENTS, namespace="default", field_selector=selector)
    assert [(event.reason, event.count) for event in page.items] == [("Tested", 2)]


async def test_its_version_is_read(transport: HttpTransport) -> None:
    assert (await server_version(transport)).startswith("v1.")
