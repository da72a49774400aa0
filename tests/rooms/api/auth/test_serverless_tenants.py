"""Functions of two tenants on a real broker: each calls and sees its own."""

import asyncio
import hashlib
from collections.abc import AsyncIterator
from itertools import count
from operator import not_

import attrs
import pytest_asyncio

from gpuruntime.api.auth.access import Principal, Role
from gpuruntime.api.auth.tokens import TokenGuard
from tests.eventually import eventually
from tests.rooms.api.service import INVOCATIONS, UNITS, Answer, Service, service, unit_order
from tests.rooms.bus.broker import SMALL, Broker
from tests.rooms.bus.fixtures import own, shared
from tests.rooms.operations.cluster import Cluster
from tests.rooms.serverless.calling.ingress import queue_of, wall_clock

__all__ = ["own", "shared"]

PREFIXES = count(1)
LETTERS = "/api/v1/serverless/dead-letters"
FUNCTIONS = "/api/v1/serverless/functions"
TABLE = {
    hashlib.sha256(name.encode()).digest(): Principal(
        name=name, role=Role.TENANT, tenants=frozenset({name})
    )
    for name in ("a", "b")
}


@attrs.frozen
class Tenants:
    api: Service

    async def call(self, who: str, method: str, path: str, body: object = None) -> Answer:
        """Call the API as `who`, whose token is its name."""
        headers = {"Authorization": f"Bearer {who}"}
        return await self.api.call(method, path, body, headers=headers)

    async def invoke(self, who: str, function: str) -> Answer:
        body = {"invocationID": "one", "serverlessRequestID": function}
        return await self.call(who, "POST", INVOCATIONS, body)


@pytest_asyncio.fixture
async def tenants(shared: Broker) -> AsyncIterator[Tenants]:
    """Yield two tenants, each with a function of its own."""
    queue = queue_of(shared.url, f"t{next(PREFIXES)}", streams=SMALL)
    guard = TokenGuard(lambda: TABLE)
    async with service(Cluster(), queue=queue, now=wall_clock, guard=guard) as api:
        made = Tenants(api)
        for who in ("a", "b"):
            order = unit_order(f"op-of-{who}", name=f"unit-of-{who}")
            order["serverless"] = {"requestID": f"of-{who}"}
            assert (await made.call(who, "POST", UNITS, order)).status == 201
        async with asyncio.TaskGroup() as tasks:
            running = tasks.create_task(queue.run())
            await eventually(lambda: queue.problem, not_)
            yield made
            running.cancel()


async def test_a_tenant_calls_and_reads_its_own_function_only(tenants: Tenants) -> None:
    assert (await tenants.invoke("a", "of-a")).status == 202
    path = f"{INVOCATIONS}/one?serverlessRequestID=of-a"
    assert (await tenants.call("a", "GET", path)).data["state"] == "queued"
    assert (await tenants.call("b", "GET", path)).code == "invocation_not_found"
    assert (await tenants.call("b", "DELETE", path)).code == "invocation_not_found"
    assert (await tenants.invoke("b", "of-a")).code == "function_not_found"
    assert (await tenants.call("a", "DELETE", path)).status == 204


async def test_lists_show_a_tenants_own_functions_and_dead_letters(tenants: Tenants) -> None:
    for who in ("a", "b"):
        found = await tenants.call(who, "GET", FUNCTIONS)
        assert [each["serverlessRequestID"] for each in found.data] == [f"of-{who}"]
        letters = await tenants.call(who, "GET", f"{LETTERS}?serverlessRequestID=of-{who}")
        assert letters.data == []
