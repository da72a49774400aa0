"""A function on the real node, from its first call to the end of its last worker.

All roles run as Pods.
"""

import asyncio
import time
from collections.abc import Iterator
from datetime import datetime
from itertools import pairwise
from operator import not_
from typing import Any

import attrs
import pytest

from gpuruntime.bus.messages import Record, read
from gpuruntime.models.kinds.invocations import State
from tests.eventually import eventually_blocking
from tests.proofs.real_node.configuration import POD_CIDR
from tests.proofs.real_node.deployment import INSTANCE, MANAGER, Deployment
from tests.proofs.real_node.images.preloaded import PRODUCT
from tests.proofs.real_node.isolation import enclosure
from tests.proofs.real_node.node import Node
from tests.proofs.real_node.overlay import SECRETS, Part
from tests.rooms.bus.broker import Broker, broker
from tests.rooms.bus.identities import Identity, operated
from tests.rooms.serverless.results.database import Database, Network, asking, database

pytestmark = pytest.mark.node

SPEC = "echo.1"
# The envelope fits both containers of a worker.
ENVELOPE = {"cpu": "250m", "memory": "640Mi"}
FUNCTION = {
    "operationID": "unit-echo",
    "name": "echo",
    "specName": SPEC,
    "image": PRODUCT,
    "template": {"command": ["python", "-m", "gpuruntime.framework.echo"]},
    "serverless": {"requestID": "echo", "maxWorkers": 1, "idleTimeoutSeconds": 10},
}
CALL = {
    "invocationID": "first",
    "serverlessRequestID": "echo",
    "mode": "sync",
    "timeoutSeconds": 50,
    "payload": {"words": ["one", "two"]},
}
WORKER = "echo-w-1"
# Timestamps of Kubernetes have whole seconds.
GRAIN_SECONDS = 1.0
# Two busy cores delay the report of an end.
SLACK_SECONDS = 3.0


def parts(queue: Broker, stored: Database, account: Identity) -> dict[str, Part]:
    """Return the settings and secrets of each role, as docs/functions.md describes them."""
    nats = {"url": queue.url}
    login = {**nats, "credentialsFile": f"{SECRETS}/broker.creds"}
    results = {"store": "postgres", "postgres": {"urlFile": f"{SECRETS}/url"}}
    creds = account.credentials_of(Identity("user"))
    url = stored.url_at(enclosure.ADDRESS)
    manager = {
        **MANAGER,
        "nats": nats,
        "serverless": {"image": PRODUCT, "signingKeyFile": f"{SECRETS}/account.nk"},
        "network": {"nats": {"address": enclosure.ADDRESS, "port": int(queue.url.split(":")[-1])}},
    }
    both = {"broker.creds": creds, "url": url}
    return {
        "manager": Part(settings=manager, secrets={"account.nk": account.seed}),
        "api": Part(settings={"nats": login, "results": results}, secrets=both),
        "activator": Part(settings={"nats": login}, secrets={"broker.creds": creds}),
        "results": Part(settings={"nats": login, "results": results}, secrets=both),
    }


@attrs.frozen
class Called:
    """The only call of this module: its answer, its duration, and its worker."""

    invocation: dict[str, Any]
    seconds: float
    worker: dict[str, Any]


@pytest.fixture(scope="module")
def stored(real_node: Node) -> Iterator[Database]:
    del real_node
    with database(Network(address=enclosure.ADDRESS, clients=POD_CIDR)) as started:
        yield started


@pytest.fixture(scope="module")
def functions(product: Deployment, stored: Database) -> Iterator[Deployment]:
    """Yield a deployment with one stock unit and no function yet."""
    product.clear()
    account = Identity("account")
    with broker(*operated(account), address=enclosure.ADDRESS) as queue:
        product.apply(parts(queue, stored, account))
        product.seed(SPEC, 1, **ENVELOPE)
        yield product
        product.clear()
        product.remove("serverless")
        product.apply()


@pytest.fixture(scope="module")
def called(functions: Deployment) -> Called:
    declared = functions.caller.post("/gpu-units", FUNCTION)
    assert declared.status == 201, declared
    functions.ready("echo")
    assert functions.pods_of(INSTANCE) == []
    asked = time.monotonic()
    answer = functions.caller.post("/serverless/invocations", CALL)
    seconds = time.monotonic() - asked
    assert answer.status == 200, answer
    return Called(answer.data, seconds, functions.ready(WORKER))


def test_a_call_starts_a_worker_from_stock_and_returns_its_result(
    called: Called,
) -> None:
    invocation = called.invocation
    assert (invocation["state"], invocation["attempt"]) == (State.SUCCEEDED, 1)
    assert (invocation["statusCode"], invocation["body"]) == (200, CALL["payload"])
    assert invocation["workerName"] == WORKER
    assert called.worker["sourceStock"]["name"].endswith("-1")


def test_no_container_of_the_worker_restarted(called: Called, functions: Deployment) -> None:
    del called
    [pod] = functions.pods_of(INSTANCE)
    assert pod["metadata"]["labels"]["runtime.lokiwager.io/unit"] == WORKER
    seen = [*pod["status"]["initContainerStatuses"], *pod["status"]["containerStatuses"]]
    assert {one["name"]: one["restartCount"] for one in seen} == {"worker": 0, "runtime": 0}


def test_the_timestamps_of_call_and_worker_are_in_order_and_add_up(called: Called) -> None:
    invocation, timeline = called.invocation, called.worker["timeline"]
    unit = ("acceptedAt", "claimedAt", "createdAt", "scheduledAt", "startedAt")
    told = [
        invocation["acceptedAt"],
        *(timeline[phase] for phase in unit),
        invocation["startedAt"],
        invocation["completedAt"],
    ]
    moments = [datetime.fromisoformat(one).timestamp() for one in told]
    assert all(later - sooner > -GRAIN_SECONDS for sooner, later in pairwise(moments)), told
    took = moments[-1] - moments[0]
    assert abs(called.seconds - took) < SLACK_SECONDS, (called.seconds, told)
    ready = datetime.fromisoformat(timeline["readyAt"]).timestamp()
    assert ready > moments[unit.index("startedAt")], told


def test_the_result_is_a_row_of_the_database(called: Called, stored: Database) -> None:
    row = eventually_blocking(
        lambda: asyncio.run(row_of(stored, "first")), lambda found: found is not None
    )
    assert row
    record = read(row, Record)
    assert (record.state, record.workerName) == (State.SUCCEEDED, WORKER)
    assert record.completedAt == datetime.fromisoformat(called.invocation["completedAt"])


def test_the_function_has_no_worker_once_it_is_idle(called: Called, functions: Deployment) -> None:
    del called
    unit = functions.caller.until(
        "/gpu-units?lifecycle=instance", lambda units: [one["name"] for one in units] == ["echo"]
    )[0]
    assert unit["phase"] == "Ready"
    eventually_blocking(lambda: functions.pods_of(INSTANCE), not_)
    [view] = functions.caller.get("/serverless/functions").data
    assert (view["workers"]["desired"], view["workers"]["ready"]) == (0, 0)
    assert functions.caller.get("/operator/audit").data["breaches"] == []


async def row_of(stored: Database, invocation: str) -> bytes | None:
    query = "SELECT record FROM results WHERE function = 'echo' AND invocation = $1"
    async with asking(stored.url, "gpuruntime") as connection:
        found: bytes | None = await connection.fetchval(query, invocation)
        return found
