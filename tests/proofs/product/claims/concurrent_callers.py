"""Many concurrent callers of several api replicas, over persistent connections."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import aiohttp

from tests.proofs.real_cluster.product import Answer, Caller, Installation, Process

# Many units of this size fit on one node.
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
    """Return a request for a unit with a port; its operationID equals its name."""
    given = {"operationID": name, "name": name, "specName": spec, "image": "python:3.12"}
    return {**given, "template": PORTS, **members}


def seed(
    caller: Caller, spec: str, replicas: int, *, ready: int | None = None, **members: Any
) -> None:
    """Seed stock and return when all of it, or `ready` of it, is ready."""
    operation = f"stock-{spec}"
    body = {"operationID": operation, "specName": spec, "replicas": replicas, **SMALL, **members}
    assert caller.post("/operator/stock-units", body).status == 202
    wanted = replicas if ready is None else ready
    caller.until(f"/operator/jobs/{operation}", lambda job: job["ready"] == wanted, seconds=120)


def units_of(made: Installation, spec: str, namespace: str) -> list[dict[str, Any]]:
    """Return the units of the spec as the API server has them."""
    found = made.objects("gpuunits", namespace)
    return [each for each in found if each["spec"]["specName"] == spec]


def source_of(unit: dict[str, Any]) -> str:
    """Return the uid of the stock unit that the unit was claimed from."""
    return str(unit["metadata"]["annotations"]["runtime.lokiwager.io/source-stock-uid"])


def wait_until_running(caller: Caller, spec: str, count: int) -> None:
    """Return when this number of units is Ready and the stock that they consumed is gone."""
    caller.until(f"/operator/jobs/stock-{spec}", lambda job: job["consumed"] == count, seconds=120)
    units = f"/gpu-units?specName={spec}"
    caller.until(f"{units}&phase=Progressing&limit=1", lambda some: not some, seconds=120)
    assert len(caller.get(f"{units}&phase=Ready&limit=1000").data) == count


def wait_until_sound(caller: Caller) -> None:
    """Return when the audit reports no breach and no suspicion, as in a cluster at rest."""
    caller.until(
        "/operator/audit", lambda audit: not audit["breaches"] and not audit["suspicions"]
    )
