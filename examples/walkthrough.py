"""From stock to a running unit and its storage over REST: python walkthrough.py [ADDRESS].

It wants an API on which it has not run before, such as that of a fresh `gpuruntime dev`.
"""

import asyncio
import sys
from collections.abc import Callable
from typing import Any

import aiohttp

STOCK = {
    "operationID": "stock-g1-demo-001",
    "specName": "g1.1",
    "memory": "16Gi",
    "gpu": 1,
    "replicas": 2,
}
UNIT = {
    "operationID": "unit-demo-001",
    "name": "demo-instance",
    "namespace": "runtime-instance",
    "specName": "g1.1",
    "image": "python:3.12",
    "access": {"primaryPort": "http", "scheme": "http"},
    "template": {
        "command": ["python"],
        "args": ["-m", "http.server", "8080"],
        "ports": [{"name": "http", "port": 8080}],
    },
}
STORAGE = {
    "operationID": "storage-demo-001",
    "name": "weights",
    "size": "1Gi",
    "prepare": {
        "fromImage": "busybox:1.36",
        "command": ["sh", "-c", "echo hello > /storage/hello"],
    },
}
MOUNTS = {"storageMounts": [{"name": "weights", "mountPath": "/models"}]}
POLL_SECONDS = 0.2
PATIENCE_SECONDS = 60.0


def is_ready_as_asked(unit: Any) -> bool:
    """Not merely as it was asked for before the last change."""
    return bool(unit["phase"] == "Ready" and unit["observedGeneration"] == unit["generation"])


class UnexpectedAnswerError(Exception):
    pass


class Client:
    def __init__(self, session: aiohttp.ClientSession) -> None:
        self._session = session

    async def call(self, wanted: int, method: str, path: str, body: object = None) -> Any:
        """The data of the answer; raises UnexpectedAnswerError where another status comes."""
        async with self._session.request(method, f"/api/v1{path}", json=body) as answer:
            document = await answer.json() if answer.content_type == "application/json" else {}
            print(answer.status, method, path)
            if answer.status != wanted:
                raise UnexpectedAnswerError(f"wanted {wanted}, not {answer.status}: {document}")
            return document.get("data", document)

    async def file(self, method: str, name: str, data: bytes | None = None) -> tuple[int, bytes]:
        """Of the storage; the status and what came."""
        path = f"/gpu-storages/weights/files/{name}"
        async with self._session.request(method, f"/api/v1{path}", data=data) as answer:
            print(answer.status, method, path)
            return answer.status, await answer.read()

    async def until(self, path: str, holds: Callable[[Any], bool]) -> Any:
        """The first data for which it holds."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                async with self._session.get(f"/api/v1{path}") as answer:
                    document = await answer.json()
                if answer.ok and holds(document["data"]):
                    return document["data"]
                await asyncio.sleep(POLL_SECONDS)


async def walk(client: Client) -> None:
    await to_a_unit(client)
    await to_its_storage(client)


async def to_a_unit(client: Client) -> None:
    await client.call(202, "POST", "/operator/stock-units", STOCK)
    await client.call(200, "POST", "/operator/stock-units", STOCK)
    await client.call(409, "POST", "/operator/stock-units", {**STOCK, "replicas": 3})
    job = await client.until(
        f"/operator/jobs/{STOCK['operationID']}", lambda job: job["ready"] == 2
    )
    print("job:", job["status"], "created", job["created"], "ready", job["ready"])

    await client.call(201, "POST", "/gpu-units", UNIT)
    await client.call(200, "POST", "/gpu-units", UNIT)
    await client.call(409, "POST", "/gpu-units", {**UNIT, "image": "python:3.13"})
    unit = await client.until("/gpu-units/demo-instance", is_ready_as_asked)
    print("unit:", unit["accessURL"], "on", unit["nodeName"], "from", unit["sourceStock"]["name"])

    second = {**UNIT, "operationID": "unit-demo-002", "name": "second"}
    await client.call(201, "POST", "/gpu-units", second)
    third = {**UNIT, "operationID": "unit-demo-003", "name": "third"}
    refused = await client.call(409, "POST", "/gpu-units", third)
    print("third:", refused["error"]["code"])
    await client.call(404, "GET", "/gpu-units/third")

    await client.call(204, "DELETE", "/gpu-units/second")


async def to_its_storage(client: Client) -> None:
    """On dev the Job that fills it is simulated: it takes its time, and writes nothing."""
    await client.call(201, "POST", "/gpu-storages", STORAGE)
    await client.until("/gpu-storages/weights", lambda storage: storage["phase"] == "Ready")
    await client.call(200, "PUT", "/gpu-units/demo-instance", MOUNTS)
    storage = await client.until("/gpu-storages/weights", lambda storage: storage["mountedBy"])
    print("storage:", storage["capacity"], "mounted by", *storage["mountedBy"])
    refused = await client.call(409, "DELETE", "/gpu-storages/weights")
    print("weights:", refused["error"]["message"])

    await to_its_files(client)
    await client.call(200, "PUT", "/gpu-units/demo-instance", {"storageMounts": []})
    await client.until("/gpu-storages/weights", lambda storage: not storage["mountedBy"])
    await client.call(204, "DELETE", "/gpu-storages/weights")
    await client.until("/gpu-units/demo-instance", is_ready_as_asked)


async def to_its_files(client: Client) -> None:
    """On dev a file server runs with dufs on the PATH; without one the answer says so."""
    accessor = {"accessor": {"enabled": True, "writable": True}}
    await client.call(200, "PUT", "/gpu-storages/weights", accessor)
    await client.until(
        "/gpu-storages/weights",
        lambda storage: storage["accessorStatus"]["phase"] in ("Ready", "Failed"),
    )
    status, words = await client.file("GET", "")
    if status == 200:
        await client.file("PUT", "greeting", b"hello from a caller")
        status, words = await client.file("GET", "greeting")
    print("files:", status, words.decode())


async def main(address: str) -> None:
    async with aiohttp.ClientSession(address) as session:
        await walk(Client(session))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8080"))
