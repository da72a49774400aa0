"""The remedies that pages give are carried out, and end the trouble that they are for."""

import io
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import aiohttp
import attrs
import pytest

from gpuruntime.models.kinds import labels
from gpuruntime.models.kinds.pools import STOCK_POOLS
from gpuruntime.models.kubernetes.cluster import CONFIG_MAPS
from tests.eventually import eventually
from tests.proofs.docs.pages import page_of
from tests.rooms.commands.running import Output, run_command
from tests.rooms.roles.dev.test_dev import Caller, printed, running, server_in

pytestmark = pytest.mark.looptime

CREATE: Final = "units create --image python:3.12"
FAILING_POOL: Final = {
    "operationID": "c",
    "name": "c",
    "specName": "c.1",
    "gpu": 1,
    "replicas": 1,
    "template": {"envs": [{"name": "SIMULATE_FAIL", "value": "image-pull"}]},
}


@attrs.frozen(kw_only=True)
class Remedy:
    """A trouble of an object, what a page says against it, and the reasons before and after.

    A step is a command of the program, or a request: a method, a path and a body.
    """

    page: str
    says: str
    trouble: tuple[str, ...]
    at: str
    reason: str
    remedy: tuple[str, ...]
    then: str


REMEDIES = {
    "a unit whose container ends": Remedy(
        page="docs/concepts.md",
        says="change image, command or template, or check the registry",
        trouble=(
            "pools create --name a --spec a.1 --memory 1Gi --gpu 1 --replicas 1 --wait",
            f"{CREATE} --name a --spec a.1 --env SIMULATE_FAIL=crash=3",
        ),
        at="/gpu-units/a",
        reason="PodStartupFailed",
        remedy=("units update a --env EPOCHS=3",),
        then="DeploymentReady",
    ),
    "a suspended unit": Remedy(
        page="docs/concepts.md",
        says="| `ScaledToZero` | Suspended | suspended, and no Pod is left | `suspended: false` |",
        trouble=(
            "pools create --name b --spec b.1 --memory 1Gi --gpu 1 --replicas 1 --wait",
            f"{CREATE} --name b --spec b.1 --wait",
            "units suspend b",
        ),
        at="/gpu-units/b",
        reason="ScaledToZero",
        remedy=('PUT /gpu-units/b {"suspended": false}',),
        then="DeploymentReady",
    ),
    "stock that cannot start": Remedy(
        page="docs/alerts.md",
        says="Correct the image or the template of the pool "
        "(`PUT /api/v1/operator/stockpools/{name}`), which the failed units take over at once",
        trouble=(f"POST /operator/stockpools {json.dumps(FAILING_POOL)}",),
        at="/operator/stockpools/c",
        reason="StockFailed",
        remedy=('PUT /operator/stockpools/c {"template": {}}',),
        then="StockReady",
    ),
    "a storage that another unit holds": Remedy(
        page="docs/concepts.md",
        says="wait, or remove it from that unit's mounts",
        trouble=(
            "pools create --name e --spec e.1 --memory 1Gi --gpu 1 --replicas 2 --wait",
            "storages create --name e --size 1Gi --wait",
            f"{CREATE} --name e --spec e.1 --mount e:/models --wait",
            f"{CREATE} --name f --spec e.1 --mount e:/models",
        ),
        at="/gpu-units/f",
        reason="StorageNotReady",
        remedy=('PUT /gpu-units/e {"storageMounts": []}',),
        then="DeploymentReady",
    ),
    "a pool with another envelope": Remedy(
        page="docs/concepts.md",
        says="delete this pool; create it with that envelope, or another specName",
        trouble=(
            "pools create --name g --spec g.1 --memory 1Gi --gpu 1 --replicas 1 --wait",
            'kubectl create {"name": "h", "specName": "g.1", "memory": "2Gi", "replicas": 1}',
        ),
        at="/operator/stockpools/h",
        reason="SpecConflict",
        remedy=(
            "pools delete h --wait",
            "pools create --name h --spec g.1 --memory 1Gi --gpu 1 --replicas 1",
        ),
        then="StockReady",
    ),
}


@attrs.frozen
class Site:
    """A dev in virtual time, with its API and its cluster."""

    address: str
    server: str
    session: aiohttp.ClientSession

    @property
    def caller(self) -> Caller:
        return Caller(self.session, self.address)

    async def run(self, words: str) -> Output:
        return await run_command(words, self.address)

    async def carry_out(self, step: str) -> None:
        method, path, body = (*step.split(" ", 2), "", "")[:3]
        match method:
            case "PUT":
                status, answer = await self.caller.put(path, json.loads(body))
                assert status == 200, answer
            case "POST":
                status, answer = await self.caller.post(path, json.loads(body))
                assert status == 202, answer
            case "kubectl":
                await self.create_pool(**json.loads(body))
            case _:
                output = await self.run(step)
                assert output.code == 0, f"{step}: {output.err}"

    async def create_pool(self, name: str, **spec: Any) -> None:
        document = {
            "apiVersion": STOCK_POOLS.api_version,
            "kind": "StockPool",
            "metadata": {"name": name},
            "spec": spec,
        }
        url = f"{self.server}{STOCK_POOLS.path(namespace='runtime-stock')}"
        async with self.session.post(url, json=document) as answer:
            assert answer.status == 201, await answer.text()

    async def tombstone_of(self, operation: str) -> str:
        """Return the address of the ConfigMap whose annotation names the operation."""
        url = f"{self.server}{CONFIG_MAPS.path(namespace='runtime-system')}"
        async with self.session.get(url) as answer:
            items = (await answer.json())["items"]
        known = {
            each["metadata"]["annotations"].get(labels.OPERATION_ID): each["metadata"]["name"]
            for each in items
            if "annotations" in each["metadata"]
        }
        return f"{url}/{known[operation]}"

    async def until_reason(self, path: str, reason: str) -> None:
        await self.caller.until(path, lambda data: (data or {}).get("reason") == reason)


@asynccontextmanager
async def site() -> AsyncIterator[Site]:
    output = io.StringIO()
    async with running(output), aiohttp.ClientSession() as session:
        server = server_in(Path(printed(output, "kubeconfig")))
        yield Site(address=printed(output, "api"), server=server, session=session)


async def test_a_remedy_ends_its_trouble() -> None:
    async with site() as here:
        for name, row in REMEDIES.items():
            assert row.says in page_of(row.page).text, name
            for step in row.trouble:
                await here.carry_out(step)
            await here.until_reason(row.at, row.reason)
            for step in row.remedy:
                await here.carry_out(step)
            await here.until_reason(row.at, row.then)


async def test_an_operation_without_its_tombstone_can_be_used_again() -> None:
    assert "Delete a tombstone (`kubectl delete configmap operation-…`) to use an operationID" in (
        page_of("docs/operate.md").text
    )
    create = f"{CREATE} --operation again --name again --spec g1.1"
    async with site() as here:
        await here.carry_out("pools create --name p --spec g1.1 --gpu 1 --replicas 1 --wait")
        await here.carry_out(create)
        await here.carry_out("units delete again --wait")
        assert "operation_finished" in (await here.run(create)).err
        async with here.session.delete(await here.tombstone_of("again")) as answer:
            assert answer.status == 200
        await eventually(lambda: here.run(create), lambda output: output.code == 0)
