"""The roles together on the embedded cluster: from a request to a running Pod, and back."""

import asyncio
import io
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import attrs
import pytest
import yaml

from gpuruntime.embedded.processes.programs import Programs
from gpuruntime.errors import ConfigurationError
from gpuruntime.roles.dev.dev import Dev
from gpuruntime.settings.gateway import GatewaySettings
from gpuruntime.settings.schema import NamespaceSettings, OperationsSettings, Settings
from gpuruntime.settings.values import Address, Label
from tests.eventually import eventually
from tests.walkthrough import STOCK, UNIT

pytestmark = pytest.mark.looptime

SIMULATED: Programs = {}


def local_settings() -> Settings:
    return Settings(
        listen=Address("127.0.0.1", 0),
        operations=OperationsSettings(listen=Address("127.0.0.1", 0)),
    )


class Caller:
    def __init__(self, session: aiohttp.ClientSession, address: str) -> None:
        self._session = session
        self._root = f"{address}/api/v1"

    async def post(self, path: str, body: object) -> tuple[int, Any]:
        async with self._session.post(self._root + path, json=body) as answer:
            return answer.status, await answer.json()

    async def get(self, path: str) -> tuple[int, Any]:
        async with self._session.get(self._root + path) as answer:
            return answer.status, await answer.json()

    async def put(self, path: str, body: object) -> tuple[int, Any]:
        async with self._session.put(self._root + path, json=body) as answer:
            return answer.status, await answer.json()

    async def delete(self, path: str) -> int:
        async with self._session.delete(self._root + path) as answer:
            return answer.status

    async def until(self, path: str, holds: Callable[[Any], bool]) -> Any:
        async def data() -> Any:
            _, answer = await self.get(path)
            return answer.get("data")

        return await eventually(data, holds, within_seconds=60, poll_seconds=0.2)


def printed(output: io.StringIO, word: str) -> str:
    return next(
        line.split()[1] for line in output.getvalue().splitlines() if line.startswith(word)
    )


def server_in(path: Path) -> str:
    return str(yaml.safe_load(path.read_text())["clusters"][0]["cluster"]["server"])


def is_there(path: Path) -> bool:
    return path.exists()


@asynccontextmanager
async def running(
    output: io.StringIO,
    *,
    only_cluster: bool = False,
    programs: Programs = SIMULATED,
    settings: Settings | None = None,
) -> AsyncIterator[None]:
    """Run no program: processes do not take part in virtual time, whatever is on the PATH."""
    dev = Dev(
        settings or local_settings(), only_cluster=only_cluster, output=output, programs=programs
    )
    word = "kubeconfig" if only_cluster else "units list"
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(dev.run(), name="dev")
        await eventually(output.getvalue, lambda text: word in text, within_seconds=60)
        yield
        await dev.drain()
        task.cancel()


@asynccontextmanager
async def calling(
    programs: Programs = SIMULATED, *, settings: Settings | None = None
) -> AsyncIterator[Caller]:
    output = io.StringIO()
    async with (
        running(output, programs=programs, settings=settings),
        aiohttp.ClientSession() as session,
    ):
        yield Caller(session, printed(output, "api"))


async def test_the_walk_through_leads_from_stock_to_a_ready_unit() -> None:
    async with calling() as caller:
        assert (await caller.post("/operator/stock-units", STOCK))[0] == 202
        assert (await caller.post("/operator/stock-units", STOCK))[0] == 200
        assert (await caller.post("/operator/stock-units", {**STOCK, "replicas": 3}))[0] == 409
        job = await caller.until(
            f"/operator/jobs/{STOCK['operationID']}", lambda job: job["ready"] == 2
        )
        assert (job["status"], job["created"]) == ("succeeded", 2)

        assert (await caller.post("/gpu-units", UNIT))[0] == 201
        assert (await caller.post("/gpu-units", UNIT))[0] == 200
        assert (await caller.post("/gpu-units", {**UNIT, "image": "python:3.13"}))[0] == 409
        unit = await caller.until(
            "/gpu-units/demo-instance", lambda unit: unit["phase"] == "Ready"
        )
        assert unit["accessURL"] == (
            "http://unit-demo-instance.runtime-instance.svc.cluster.local:8080"
        )
        assert (unit["memory"], unit["gpu"]) == ("16Gi", 1)
        source = unit["sourceStock"]["name"]
        await caller.until(
            "/gpu-units?lifecycle=stock", lambda units: [u["name"] for u in units] != [source]
        )

        other = {**UNIT, "operationID": "unit-demo-002", "name": "second"}
        assert (await caller.post("/gpu-units", other))[0] == 201
        third = {**UNIT, "operationID": "unit-demo-003", "name": "third"}
        status, answer = await caller.post("/gpu-units", third)
        assert (status, answer["error"]["code"]) == (409, "insufficient_capacity")
        assert (await caller.get("/gpu-units/third"))[0] == 404
        await caller.until("/gpu-units?lifecycle=stock", lambda units: units == [])


async def test_dev_runs_in_namespaces_that_every_cluster_has() -> None:
    names = NamespaceSettings(
        stock=Label("default"), instance=Label("kube-public"), system=Label("kube-system")
    )
    settings = attrs.evolve(local_settings(), namespaces=names)
    async with calling(settings=settings) as caller:
        assert (await caller.post("/operator/stock-units", STOCK))[0] == 202
        await caller.until(f"/operator/jobs/{STOCK['operationID']}", lambda job: job["ready"] == 2)
        assert (await caller.post("/gpu-units", {**UNIT, "namespace": "kube-public"}))[0] == 201
        await caller.until("/gpu-units/demo-instance", lambda unit: unit["phase"] == "Ready")


async def test_a_refill_pool_returns_to_its_size_after_a_claim() -> None:
    pool = {"operationID": "pool-1", "name": "warm", "specName": "g1.1", "gpu": 1, "replicas": 2}
    async with calling() as caller:
        assert (await caller.post("/operator/stockpools", pool))[0] == 202
        await caller.until("/operator/jobs/pool-1", lambda job: job["ready"] == 2)
        assert (await caller.post("/gpu-units", UNIT))[0] == 201
        job = await caller.until("/operator/jobs/pool-1", lambda job: job["consumed"] == 1)
        assert job["requested"] == 2
        await caller.until("/operator/jobs/pool-1", lambda job: job["ready"] == 2)


async def test_a_crash_shows_in_the_units_reason_and_a_new_spec_recovers_it() -> None:
    crash = {
        **UNIT,
        "template": {
            "command": ["serve"],
            "envs": [{"name": "SIMULATE_FAIL", "value": "crash=3: no weights in /data"}],
        },
        "access": {},
    }
    async with calling() as caller:
        await caller.post("/operator/stock-units", STOCK)
        await caller.until(f"/operator/jobs/{STOCK['operationID']}", lambda job: job["ready"] == 2)
        assert (await caller.post("/gpu-units", crash))[0] == 201
        unit = await caller.until(
            "/gpu-units/demo-instance", lambda unit: unit["phase"] == "Failed"
        )
        assert unit["reason"] == "PodStartupFailed"
        assert "no weights in /data" in unit["message"]

        status, _ = await caller.put("/gpu-units/demo-instance", {"template": {"command": ["ok"]}})
        assert status == 200
        await caller.until("/gpu-units/demo-instance", lambda unit: unit["phase"] == "Ready")


@pytest.mark.parametrize(
    ("failure", "reason", "words"),
    [
        ("image-pull: no such tag", "PodStartupFailed", "no such tag"),
        ("config-error: secret is missing", "PodStartupFailed", "secret is missing"),
        ("crash=3: no weights", "PodStartupFailed", "no weights"),
        ("a miracle", "PodStartupFailed", "asks for none of image-pull"),
    ],
)
async def test_a_pod_fails_as_its_template_asks(failure: str, reason: str, words: str) -> None:
    envs = [{"name": "SIMULATE_FAIL", "value": failure}]
    async with calling() as caller:
        await caller.post("/operator/stock-units", STOCK)
        await caller.until(f"/operator/jobs/{STOCK['operationID']}", lambda job: job["ready"] == 2)
        await caller.post("/gpu-units", {**UNIT, "access": {}, "template": {"envs": envs}})
        unit = await caller.until(
            "/gpu-units/demo-instance", lambda unit: unit["phase"] == "Failed"
        )
        assert unit["reason"] == reason
        assert words in unit["message"]


async def test_a_suspended_unit_runs_no_pod_and_can_be_resumed() -> None:
    async with calling() as caller:
        await caller.post("/operator/stock-units", STOCK)
        await caller.until(f"/operator/jobs/{STOCK['operationID']}", lambda job: job["ready"] == 2)
        await caller.post("/gpu-units", UNIT)
        await caller.until("/gpu-units/demo-instance", lambda unit: unit["phase"] == "Ready")
        await caller.put("/gpu-units/demo-instance", {"suspended": True})
        unit = await caller.until(
            "/gpu-units/demo-instance", lambda unit: unit["phase"] == "Suspended"
        )
        assert unit["readyReplicas"] == 0
        await caller.put("/gpu-units/demo-instance", {"suspended": False})
        await caller.until("/gpu-units/demo-instance", lambda unit: unit["phase"] == "Ready")
        assert await caller.delete("/gpu-units/demo-instance") == 204
        status, answer = await caller.post("/gpu-units", UNIT)
        assert (status, answer["error"]["code"]) == (409, "operation_finished")


async def test_the_cluster_alone_serves_a_kubeconfig_that_is_removed_at_its_end() -> None:
    output = io.StringIO()
    async with running(output, only_cluster=True):
        path = Path(printed(output, "kubeconfig"))
        server = server_in(path)
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"{server}/apis/runtime.lokiwager.io/v1alpha1/gpuunits") as answer,
        ):
            assert (await answer.json())["kind"] == "GPUUnitList"
        assert "api " not in output.getvalue()
    assert not is_there(path)


@pytest.mark.parametrize(
    ("key", "changes"),
    [
        ("listen", {"listen": Address("", 8080)}),
        ("gateway.listen", {"gateway": GatewaySettings(listen=Address("0.0.0.0", 8090))}),
        ("gateway.listen", {"gateway": GatewaySettings(listen=Address("192.168.1.2", 8090))}),
        (
            "gateway.activityListen",
            {"gateway": GatewaySettings(activityListen=Address("::", 8082))},
        ),
    ],
    ids=["the api", "the gateway", "the gateway at one address", "activity"],
)
def test_dev_listens_on_this_machine_only(key: str, changes: dict[str, Any]) -> None:
    open_to_all = attrs.evolve(local_settings(), **changes)
    with pytest.raises(ConfigurationError, match=rf"^{key}: .*listen on 127\.0\.0\.1"):
        Dev(open_to_all)
