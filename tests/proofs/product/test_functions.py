"""Workers of functions on the real control plane, each role under its own account.

Containers do not run there, so a worker never answers and is silent when it is told to drain.
"""

from collections.abc import Callable, Iterator
from operator import not_
from typing import Any

import attrs
import pytest

from tests.eventually import equals, eventually_blocking
from tests.proofs.real_cluster.product import Caller, Installation, Process
from tests.rooms.bus.broker import Broker, broker

pytestmark = pytest.mark.cluster

STOCK = {"operationID": "stock", "specName": "f1", "memory": "16Gi", "gpu": 1, "replicas": 3}
TWO = {"requestID": "echo", "minAvailableCount": 2, "idleTimeoutSeconds": 0}
FUNCTION = {
    "operationID": "function-echo",
    "name": "echo",
    "specName": "f1",
    "image": "python:3.12",
    "serverless": TWO,
}


@attrs.frozen
class Functions:
    made: Installation
    caller: Caller
    activator: Process

    def workers(self) -> dict[str, str]:
        units = self.made.objects("gpuunits", self.made.instance)
        return {
            unit["metadata"]["name"]: unit.get("status", {}).get("phase", "")
            for unit in units
            if "workerOf" in unit["spec"].get("serverless", {})
        }

    def status(self) -> dict[str, Any]:
        [unit] = (
            unit
            for unit in self.made.objects("gpuunits", self.made.instance)
            if unit["metadata"]["name"] == "echo"
        )
        status: dict[str, Any] = unit["status"]
        return status


@pytest.fixture(scope="module")
def queue() -> Iterator[Broker]:
    with broker() as started:
        yield started


@pytest.fixture
def functions(install: Callable[[str], Installation], queue: Broker) -> Functions:
    made, nats = install("functions"), {"url": queue.url}
    manager, api, activator = (
        made.manager(nats=nats),
        made.api(nats=nats),
        made.activator(nats=nats),
    )
    for process in (manager, api, activator):
        process.wait_until_ready()
    caller = Caller(api.address)
    assert caller.post("/operator/stock-units", STOCK).status == 202
    caller.until("/operator/jobs/stock", lambda job: job["ready"] == STOCK["replicas"])
    return Functions(made, caller, activator)


def test_a_function_gets_and_returns_workers_with_the_rights_of_the_roles(
    functions: Functions,
) -> None:
    assert functions.caller.post("/gpu-units", FUNCTION).status == 201
    explain = functions.activator.tail
    eventually_blocking(
        functions.workers,
        equals({"echo-w-1": "Ready", "echo-w-2": "Ready"}),
        explain=explain,
    )
    status = eventually_blocking(
        functions.status,
        lambda status: status.get("serverless", {}).get("readyWorkers") == 2,
        explain=explain,
    )
    assert status["phase"] == "Ready"
    assert status["serverless"]["reason"] == ""

    less = {"serverless": {**TWO, "minAvailableCount": 1}}
    assert functions.caller.put("/gpu-units/echo", less).status == 200
    eventually_blocking(functions.workers, equals({"echo-w-1": "Ready"}), explain=explain)

    assert functions.caller.delete("/gpu-units/echo").status == 204
    eventually_blocking(functions.workers, not_, explain=explain)
    assert "forbidden" not in functions.activator.log.read_text().lower()
