"""The client with the real API on an embedded cluster."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import attrs
import pytest

from gpuruntime.client import (
    NewPool,
    NewSecret,
    NewStock,
    NewStorage,
    NewUnit,
    RegistryLogin,
    SecretType,
    UnitChange,
    waiting,
)
from gpuruntime.client.client import Client
from gpuruntime.client.errors import (
    ConflictError,
    FailedError,
    InvalidRequestError,
    LostAnswerError,
    NotFoundError,
    NotYetError,
    PreconditionError,
    ProblemError,
)
from gpuruntime.client.units import UnitFilter
from gpuruntime.models.kinds.storages import Accessor
from gpuruntime.models.kinds.units import GPU_UNITS
from tests.rooms.api.files.upstream import Upstream, add_storage, answer, saying
from tests.rooms.api.routes.test_lists import add_unit, remove_unit
from tests.rooms.api.service import Service, service
from tests.rooms.client.servers import LossyProxy, client_of
from tests.rooms.kube.servers import serving
from tests.rooms.operations.cluster import INSTANCE, READY, Cluster

pytestmark = pytest.mark.looptime

UNIT = NewUnit(specName="g1.1", image="python:3.12", name="demo")


@attrs.frozen(kw_only=True)
class Site:
    cluster: Cluster
    api: Service
    client: Client

    @property
    def address(self) -> str:
        return str(self.api.client.make_url("")).rstrip("/")

    def set_status(self, name: str, **condition: Any) -> None:
        path = GPU_UNITS.path(namespace=INSTANCE, name=name, subresource="status")
        status = {"observedGeneration": 9, "conditions": [{**READY, **condition}]}
        self.cluster.call("PATCH", path, {"status": status})


@asynccontextmanager
async def site(*, stock: int = 3, method: str = "", losses: int = 0) -> AsyncIterator[Site]:
    """Yield an API and its client; the first `losses` answers to `method` are lost."""
    cluster = Cluster()
    cluster.add_stock(stock)
    async with service(cluster) as api:
        address = str(api.client.make_url("")).rstrip("/")
        proxy = LossyProxy(address, method=method, losses=losses)
        async with serving(proxy) as there, client_of(there) as client:
            yield Site(cluster=cluster, api=api, client=client)


async def names(client: Client, only: UnitFilter, limit: int = 2) -> list[str]:
    return [unit.name async for unit in client.units.list(only, limit=limit)]


async def test_a_unit_is_claimed_changed_and_deleted() -> None:
    async with site() as here:
        made = await here.client.units.create(UNIT)
        assert (made.data.name, made.is_replay, made.data.memory) == ("demo", False, "16Gi")
        read = await here.client.units.get("demo")
        changed = await here.client.units.update(
            "demo", UnitChange(image="python:3.13"), if_match=read.etag
        )
        assert changed.data.image == "python:3.13"
        with pytest.raises(PreconditionError):
            await here.client.units.update("demo", UnitChange(image="x"), if_match=read.etag)
        assert (await here.client.units.suspend("demo")).data.suspended
        assert not (await here.client.units.resume("demo")).data.suspended
        await here.client.units.delete("demo")
        await waiting.until_unit_gone(here.client, "demo")
        with pytest.raises(NotFoundError) as caught:
            await here.client.units.get("demo")
        assert caught.value.code == "gpuunit_not_found"


async def test_a_creation_with_lost_answers_claims_one_stock_unit() -> None:
    async with site(method="POST", losses=3) as here:
        made = await here.client.units.create(UNIT)
        assert made.is_replay
        assert [each["metadata"]["name"] for each in here.cluster.units] == ["demo"]
        assert len(here.cluster.claimed) == 1
        here.cluster.assert_sound()


async def test_a_lost_answer_to_a_deletion_is_raised_and_not_retried() -> None:
    async with site(method="DELETE", losses=1) as here:
        await here.client.units.create(UNIT)
        with pytest.raises(LostAnswerError):
            await here.client.units.delete("demo")
        with pytest.raises(NotFoundError):
            await here.client.units.get("demo")


async def test_a_refusal_names_every_field_and_missing_capacity() -> None:
    async with site(stock=0) as here:
        with pytest.raises(InvalidRequestError) as invalid:
            await here.client.units.create({"specName": 7, "images": "x"})
        assert [each.field for each in invalid.value.details] == ["specName", "image", "images"]
        with pytest.raises(ConflictError) as short:
            await here.client.units.create(UNIT)
        assert short.value.code == "insufficient_capacity"


async def test_pages_lose_no_unit_that_stays_while_others_come_and_go() -> None:
    async with site() as here:
        for number in range(9):
            add_unit(here.cluster, f"u-{number}")
        await asyncio.sleep(1)
        seen = []
        async for unit in here.client.units.list(limit=2):
            seen.append(unit.name)
            if unit.name == "u-1":
                remove_unit(here.cluster, "u-0")
                remove_unit(here.cluster, "u-4")
                add_unit(here.cluster, "a-new")
                add_unit(here.cluster, "u-55")
                await asyncio.sleep(1)
        assert seen == ["u-0", "u-1", "u-2", "u-3", "u-5", "u-55", "u-6", "u-7", "u-8"]


async def test_filters_must_all_match() -> None:
    async with site() as here:
        add_unit(here.cluster, "a", spec_name="g1.1", tenant="blue")
        add_unit(here.cluster, "b", spec_name="g1.1")
        add_unit(here.cluster, "c", spec_name="g2", tenant="blue")
        await asyncio.sleep(1)
        assert await names(here.client, UnitFilter(specName="g1.1", tenant="blue")) == ["a"]
        assert await names(here.client, UnitFilter(tenant="blue")) == ["a", "c"]
        assert await names(here.client, UnitFilter(lifecycle="stock")) == ["p-1", "p-2", "p-3"]


async def test_a_wait_reports_each_state_until_the_unit_is_ready() -> None:
    async with site() as here, asyncio.TaskGroup() as tasks:
        await here.client.units.create(UNIT)
        told: list[str] = []
        wait = tasks.create_task(
            waiting.until_unit_ready(
                here.client, "demo", tell=lambda view: told.append(view.reason)
            )
        )
        await asyncio.sleep(5)
        here.set_status("demo", status="False", reason="PodUnschedulable", message="no room")
        await asyncio.sleep(5)
        here.set_status("demo")
        assert (await wait).phase == "Ready"
        assert told == ["", "PodUnschedulable", "DeploymentReady"]


async def test_a_wait_for_a_unit_that_fails_raises_its_reason_and_message() -> None:
    async with site() as here:
        await here.client.units.create(UNIT)
        words = "unit-demo/runtime: ImagePullBackOff: no such tag"
        here.set_status("demo", status="False", reason="PodStartupFailed", message=words)
        with pytest.raises(FailedError) as caught:
            await waiting.until_unit_ready(here.client, "demo")
        assert (caught.value.reason, caught.value.message) == ("PodStartupFailed", words)


async def test_a_wait_for_a_suspended_unit_to_be_ready_fails() -> None:
    async with site() as here:
        await here.client.units.create(UNIT)
        await here.client.units.suspend("demo")
        here.set_status("demo", status="False", reason="ScaledToZero")
        assert (await waiting.until_unit_suspended(here.client, "demo")).suspended
        with pytest.raises(FailedError, match="resume it"):
            await waiting.until_unit_ready(here.client, "demo")


async def test_a_wait_that_times_out_names_the_storage() -> None:
    async with site() as here:
        await here.client.storages.create(NewStorage(name="weights", size="1Gi"))
        with pytest.raises(NotYetError, match="storage weights: not done after 30 s"):
            await waiting.until_storage_ready(here.client, "weights", timeout_seconds=30)
        with pytest.raises(FailedError, match=r"accessor\.enabled"):
            await waiting.until_accessor_ready(here.client, "weights")


async def test_stock_is_seeded_and_pools_are_changed() -> None:
    async with site() as here:
        job = (await here.client.stock.seed(NewStock(specName="g2", gpu=1, replicas=2))).data
        assert (job.status, job.requested) == ("pending", 2)
        pool = NewPool(name="warm", specName="g3", replicas=1, operationID="pool-1")
        assert (await here.client.pools.create(pool)).data.refill == "Always"
        assert (await here.client.pools.create(pool)).is_replay
        assert (await here.client.pools.update("warm", {"replicas": 3})).data.replicas == 3
        assert {each.operationID async for each in here.client.stock.jobs(limit=1)} == {
            job.operationID,
            "pool-1",
        }
        assert [each.name async for each in here.client.pools.list()][-1] == "warm"
        await here.client.pools.delete("warm")
        with pytest.raises(NotYetError):
            await waiting.until_seeded(here.client, job.operationID, timeout_seconds=5)


async def test_health_inventory_and_audit_are_read() -> None:
    async with site() as here:
        health = (await here.client.health()).data
        assert (health.status, health.version, health.readyStockCount) == ("ok", "1.2.3", 3)
        (spec,) = (await here.client.inventory()).data.specs
        assert (spec.specName, spec.stock.available) == ("g1.1", 3)
        assert not (await here.client.audit()).data.breaches


async def test_flavours_are_read_page_by_page() -> None:
    async with site() as here:
        for name in ("g1.1", "g2", "g3"):
            await here.client.pools.create(NewPool(specName=name, gpu=1, replicas=1))
        found = [each async for each in here.client.flavours(limit=2)]
        assert [each.specName for each in found] == ["g1.1", "g2", "g3"]
        assert [each.full for each in found] == [False, True, True]


async def test_files_are_listed_read_and_written_under_their_own_names() -> None:
    cluster, upstream = Cluster(), Upstream()
    listed = b'{"kind": "Index", "paths": [{"path_type": "Dir", "name": "sub", "size": 2},'
    listed += b'{"path_type": "File", "name": "a b.bin", "mtime": 5, "size": 3}]}'

    async def pieces() -> AsyncIterator[bytes]:
        yield b"one"
        yield b"two"

    async with (
        service(cluster) as api,
        await asyncio.start_server(upstream.serve, "127.0.0.1", 0) as server,
        client_of(str(api.client.make_url("")).rstrip("/")) as client,
    ):
        add_storage(api, cluster, server.sockets[0].getsockname()[1])
        files = client.storages.files("models")
        upstream.script = saying(answer("200 OK", b"Content-Type: application/json", body=listed))
        folder, file = await files.list("sub/")
        assert (folder.name, folder.is_folder) == ("sub", True)
        assert (file.name, file.is_folder, file.size) == ("a b.bin", False, 3)
        assert upstream.line.startswith("GET /api/v1/gpu-storages/models/files/sub/?json ")
        upstream.script = saying(answer("200 OK", body=b"content"))
        async with files.read("sub/a b.bin") as read:
            assert b"".join([piece async for piece in read]) == b"content"
        assert "/files/sub/a%20b.bin " in upstream.line
        upstream.script = saying(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf")
        with pytest.raises(LostAnswerError, match="broke off"):
            async with files.read("a") as read:
                assert [piece async for piece in read] == [b"half"]
        upstream.script = saying(answer("201 Created"))
        await files.write("new", pieces(), size=6)
        assert upstream.line.startswith("PUT ")
        assert upstream.head["content-length"] == "6"
        await files.write("new", pieces())
        assert upstream.head["transfer-encoding"] == "chunked"
        with pytest.raises(NotFoundError):
            await client.storages.files("other").list()


async def test_a_storage_is_created_once_and_its_accessor_enabled() -> None:
    async with site(method="POST", losses=1) as here:
        made = await here.client.storages.create(NewStorage(name="weights", size="1Gi"))
        assert made.is_replay
        change = {"accessor": {"enabled": True}}
        changed = await here.client.storages.update("weights", change, if_match=made.etag)
        assert changed.data.accessor == Accessor(enabled=True)
        with pytest.raises(ConflictError) as caught:
            await here.client.storages.recover("weights")
        assert caught.value.code == "nothing_to_recover"
        assert [each.name async for each in here.client.storages.list()] == ["weights"]
        await here.client.storages.delete("weights")


async def test_a_refused_upload_is_not_sent() -> None:
    cluster, upstream, sent = Cluster(), Upstream(), []

    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(1000):
            sent.append(1)
            yield bytes(65_536)

    async with (
        service(cluster) as api,
        await asyncio.start_server(upstream.serve, "127.0.0.1", 0) as server,
    ):
        add_storage(api, cluster, server.sockets[0].getsockname()[1], writable=False)
        async with client_of(str(api.client.make_url("")).rstrip("/")) as client:
            with pytest.raises(ProblemError) as caught:
                await client.storages.files("models").write("new", pieces())
        await asyncio.sleep(60)  # the API may still read the announced body for this time
        assert caught.value.code == "method_not_allowed"
        assert upstream.requests == []
    assert sent == []


async def test_a_secret_is_stored_listed_by_tenant_and_deleted() -> None:
    async with site(method="POST", losses=1) as here:
        secrets = here.client.secrets
        login = RegistryLogin(server="registry.example.com", username="ann", password="word")
        images = NewSecret(name="images", type=SecretType.REGISTRY, registry=login, tenant="team")
        assert (await secrets.create(images)).data.type == SecretType.REGISTRY
        for name in ("a", "b"):
            await secrets.create({"name": name, "tenant": "team", "data": {"token": name}})
        assert [each.name async for each in secrets.list("team", limit=1)] == ["a", "b", "images"]
        assert [each.name async for each in secrets.list()] == []
        await secrets.delete("a", "team")
        with pytest.raises(NotFoundError) as caught:
            await secrets.delete("b")
        assert caught.value.code == "secret_not_found"
