"""Many callers at once on several api replicas, over connections that stay open."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import aiohttp

from tests.proofs.real_cluster.product import Answer, Caller, Installation, Process

# Many fit on one node.
SMALL = {"cpu": "10m", "memory": "16Mi"}
PORTS = {"ports": [{"name": "http", "port": 8080}]}


class ConcurrentCallers:
    def __init__(self, session: aiohttp.ClientSession, addresses: Sequence[str]) -> None:
        self._session = session
        self._addresses = addresses

    async def claim(self, order: dict[str, Any], *, replica: int = 0) -> Answer:
        url = f"{self._addresses[replica]}/api/v1/gpu-units"
        async with self._session.post(url, json=order) as answer:
            headers = {name.lower(): value for name, value in answer.headers.items()}
            return Answer(answer.status, headers, await answer.json())


@asynccontextmanager
async def concurrent_callers(apis: Sequence[Process]) -> AsyncIterator[ConcurrentCallers]:
    session = aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0), timeout=aiohttp.ClientTimeout(total=60)
    )
    async with session:
        yield ConcurrentCallers(session, [each.address for each in apis])


def order(name: str, spec: str, **members: Any) -> dict[str, Any]:
    """For a unit that serves; its operation is named as it is."""
    given = {"operationID": name, "name": name, "specName": spec, "image": "python:3.12"}
    return {**given, "template": PORTS, **members}


def seed(
    caller: Caller, spec: str, replicas: int, *, ready: int | None = None, **members: Any
) -> None:
    """Returns when all of it is ready, or as much as can be."""
    operation = f"stock-{spec}"
    body = {"operationID": operation, "specName": spec, "replicas": replicas, **SMALL, **members}
    assert caller.post("/operator/stock-units", body).status == 202
    wanted = replicas if ready is None else ready
    caller.until(f"/operator/jobs/{operation}", lambda job: job["ready"] == wanted, seconds=120)


def units_of(made: Installation, spec: str, namespace: str) -> list[dict[str, Any]]:
    """As the API server has them."""
    found = made.objects("gpuunits", namespace)
    return [each for each in found if each["spec"]["specName"] == spec]


def source_of(unit: dict[str, Any]) -> str:
    """The uid of the stock that it lives from."""
    return str(unit["metadata"]["annotations"]["runtime.lokiwager.io/source-stock-uid"])


def wait_until_running(caller: Caller, spec: str, count: int) -> None:
    """So many units are Ready, and no stock is left that one of them consumed."""
    caller.until(f"/operator/jobs/stock-{spec}", lambda job: job["consumed"] == count, seconds=120)
    units = f"/gpu-units?specName={spec}"
    caller.until(f"{units}&phase=Progressing&limit=1", lambda some: not some, seconds=120)
    assert len(caller.get(f"{units}&phase=Ready&limit=1000").data) == count


def wait_until_sound(caller: Caller) -> None:
    """No invariant looks broken: in a cluster at rest nothing is even suspicious."""
    caller.until(
        "/operator/audit", lambda audit: not audit["breaches"] and not audit["suspicions"]
    )
