"""Tests of the proxy: it changes nothing until its script says so, and then does only that."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import attrs
import pytest

from gpuruntime.embedded.apiserver.http_listener import serve
from gpuruntime.kube.client import Client
from gpuruntime.kube.connect.sources import Kubeconfig
from gpuruntime.kube.errors import (
    ConflictError,
    NotFoundError,
    OutcomeUnknownError,
    ThrottledError,
    UnreachableError,
)
from gpuruntime.kube.http import connect
from gpuruntime.kube.transport import Request, Transport
from gpuruntime.models.encoding.json import JsonObject
from gpuruntime.models.kubernetes.cluster import CONFIG_MAPS, LEASES
from gpuruntime.models.kubernetes.metadata import Key
from tests.proofs.real_cluster.proxy import (
    ANSWER_LOST,
    REQUEST_LOST,
    Fault,
    Proxy,
    Refusal,
    Traffic,
    first_of_each,
    nth,
    serving,
)
from tests.rooms.kube.connect.kubeconfigs import write_kubeconfig
from tests.rooms.operations.cluster import STOCK, Cluster, clock

pytestmark = pytest.mark.looptime

WATCH = Request(method="GET", path=CONFIG_MAPS.path(namespace=STOCK), query=(("watch", "true"),))


@attrs.frozen
class Line:
    """A server, the proxy before it, and a client of the product that knows only the proxy."""

    cluster: Cluster
    proxy: Proxy
    transport: Transport

    @property
    def client(self) -> Client:
        return Client(self.transport)

    async def write(self, name: str) -> None:
        body: JsonObject = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": name},
        }
        await self.client.create(CONFIG_MAPS, body, namespace=STOCK)

    def has(self, name: str) -> bool:
        found = self.cluster.objects(CONFIG_MAPS, STOCK)
        return name in [each["metadata"]["name"] for each in found]


@asynccontextmanager
async def line(folder: Path) -> AsyncIterator[Line]:
    cluster = Cluster()
    async with serve(cluster.server) as url, serving(url) as proxy:
        config = write_kubeconfig(folder, proxy.url, user={"token": "t"})
        transport = await connect(Kubeconfig(str(config)), now=clock)
        try:
            yield Line(cluster, proxy, transport)
        finally:
            await transport.close()


async def test_reads_writes_and_refusals_pass_unchanged(tmp_path: Path) -> None:
    async with line(tmp_path) as it:
        await it.write("one")
        found = await it.client.get(CONFIG_MAPS, Key(STOCK, "one"))
        assert found.metadata.uid
        with pytest.raises(NotFoundError):
            await it.client.get(CONFIG_MAPS, Key(STOCK, "two"))
        page = await it.client.list_page(CONFIG_MAPS, namespace=STOCK, limit=1)
        assert [each.metadata.name for each in page.items] == ["one"]


async def test_an_open_watch_receives_a_write(tmp_path: Path) -> None:
    async with line(tmp_path) as it, it.transport.stream(WATCH) as stream:
        chunks = aiter(stream.chunks())
        await it.write("seen")
        assert b'"seen"' in await anext(chunks)


async def test_writes_are_numbered_and_leases_are_counted_apart(tmp_path: Path) -> None:
    async with line(tmp_path) as it:
        await it.write("one")
        lease: JsonObject = {
            "apiVersion": LEASES.api_version,
            "kind": LEASES.kind,
            "metadata": {"name": "l"},
        }
        await it.client.create(LEASES, lease, namespace=STOCK)
        await it.client.delete(CONFIG_MAPS, Key(STOCK, "one"))
        path = CONFIG_MAPS.path(namespace=STOCK)
        assert [(each.number, str(each)) for each in it.proxy.writes] == [
            (1, f"POST {path}"),
            (2, f"DELETE {path}/one"),
        ]
        assert it.proxy.counts[Traffic.LEASE] == 1


async def test_a_write_whose_answer_is_lost_was_done(tmp_path: Path) -> None:
    async with line(tmp_path) as it:
        it.proxy.script = nth(2, ANSWER_LOST)
        await it.write("one")
        with pytest.raises(OutcomeUnknownError):
            await it.write("two")
        assert it.has("two")
        await it.write("three")


async def test_a_lost_request_never_reaches_the_server(tmp_path: Path) -> None:
    async with line(tmp_path) as it:
        it.proxy.script = nth(1, REQUEST_LOST)
        with pytest.raises(OutcomeUnknownError):
            await it.write("one")
        assert not it.has("one")


async def test_a_late_write_lands_although_its_caller_is_gone(tmp_path: Path) -> None:
    async with line(tmp_path) as it:
        it.proxy.script = nth(1, Fault(lands_after_seconds=5))
        with pytest.raises(OutcomeUnknownError):
            await it.write("late")
        await asyncio.sleep(4.5)
        assert not it.has("late")
        await asyncio.sleep(1)
        assert it.has("late")


async def test_a_refusal_looks_like_one_of_the_server(tmp_path: Path) -> None:
    async with line(tmp_path) as it:
        it.proxy.script = nth(1, Fault(refusal=Refusal(409, "Conflict")))
        with pytest.raises(ConflictError):
            await it.write("one")
        throttled = Refusal(429, "TooManyRequests", retry_after_seconds=3)
        it.proxy.script = nth(1, Fault(refusal=throttled))
        with pytest.raises(ThrottledError) as caught:
            await it.write("one")
        assert caught.value.retry_after_seconds == 3
        assert not it.has("one")


async def test_a_gateway_may_time_out_on_a_write_that_is_done(tmp_path: Path) -> None:
    async with line(tmp_path) as it:
        it.proxy.script = nth(1, Fault(refusal=Refusal(504), is_done=True))
        with pytest.raises(OutcomeUnknownError):
            await it.write("one")
        assert it.has("one")


async def test_a_script_may_fail_the_first_attempt_of_every_write(tmp_path: Path) -> None:
    async with line(tmp_path) as it:
        await it.write("one")
        it.proxy.script = first_of_each(Fault(refusal=Refusal(409, "Conflict")))
        for name in ("one", "two"):
            with pytest.raises(ConflictError):
                await it.client.delete(CONFIG_MAPS, Key(STOCK, name))
        await it.client.delete(CONFIG_MAPS, Key(STOCK, "one"))
        assert not it.has("one")


async def test_an_answer_is_held_for_the_configured_seconds(tmp_path: Path) -> None:
    async with line(tmp_path) as it:
        it.proxy.script = nth(1, Fault(held_seconds=7))
        started = asyncio.get_running_loop().time()
        await it.write("one")
        assert asyncio.get_running_loop().time() - started >= 7


async def test_callbacks_run_before_and_after_the_server_does_a_write(tmp_path: Path) -> None:
    async with line(tmp_path) as it:
        told: list[bool] = []
        fault = Fault(before=lambda: told.append(it.has("one")))
        it.proxy.script = nth(1, attrs.evolve(fault, after=lambda: told.append(it.has("one"))))
        await it.write("one")
        assert told == [False, True]


async def test_open_watches_are_cut_and_new_watches_pass(tmp_path: Path) -> None:
    async with line(tmp_path) as it:
        async with it.transport.stream(WATCH) as stream:
            chunks = aiter(stream.chunks())
            await it.write("one")
            await anext(chunks)
            it.proxy.cut_watches()
            with pytest.raises(UnreachableError):
                await anext(chunks)
        async with it.transport.stream(WATCH) as stream:
            assert b'"one"' in await anext(aiter(stream.chunks()))


async def test_nothing_passes_while_connections_are_broken(tmp_path: Path) -> None:
    async with line(tmp_path) as it:
        it.proxy.script = nth(1, Fault(after=lambda: it.proxy.go_dark(2)))
        with pytest.raises(OutcomeUnknownError):
            await it.write("one")
        with pytest.raises(UnreachableError):
            await it.client.get(CONFIG_MAPS, Key(STOCK, "one"))
        await asyncio.sleep(2)
        found = await it.client.get(CONFIG_MAPS, Key(STOCK, "one"))
        assert found.metadata.name == "one"
