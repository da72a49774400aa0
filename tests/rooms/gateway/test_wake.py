"""Requests resume a suspended unit that allows it, wait with their heads, and are all answered."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, closing
from typing import Any, Final

import attrs
import pytest
from aiohttp import web

from gpuruntime.gateway.wake import MOST_HELD_PER_UNIT
from gpuruntime.models.kinds.reasons import ConditionType, UnitReason
from gpuruntime.models.kinds.units import GPUUnit, GPUUnitStatus
from gpuruntime.models.kubernetes.conditions import Condition
from gpuruntime.settings.gateway import GatewayTimeSettings
from gpuruntime.strict.durations import Seconds
from gpuruntime.tickets.tokens import TokenType, verify
from tests.eventually import eventually
from tests.rooms.api.routes.test_tickets import change, served
from tests.rooms.gateway.service import Caller, gateway, host_of, upstream
from tests.rooms.gateway.visitors import NOW, RING, ticket, unit
from tests.rooms.operations.cluster import clock

ASLEEP: Final = unit(suspended=True, wake=True)
BEARER: Final = {"Authorization": f"Bearer {ticket(ASLEEP)}"}
NAVIGATION: Final = {"Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}


def with_ready(of: GPUUnit, reason: UnitReason, message: str = "") -> GPUUnit:
    status = "True" if reason is UnitReason.DEPLOYMENT_READY else "False"
    ready = Condition(type=ConditionType.READY, status=status, reason=reason, message=message)
    return attrs.evolve(of, status=GPUUnitStatus(conditions=(ready,)))


AWAKE: Final = with_ready(unit(wake=True), UnitReason.DEPLOYMENT_READY)
WAITING: Final = with_ready(unit(wake=True), UnitReason.POD_UNSCHEDULABLE, "no node is free")
SCALED: Final = with_ready(unit(wake=True), UnitReason.SCALED_TO_ZERO, "suspended: no Pod runs")
FAILED: Final = with_ready(unit(wake=True), UnitReason.POD_STARTUP_FAILED, "exit code 1")


class Api:
    """An API that resumes units; it keeps what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []
        self.claims: list[Any] = []

    async def serve(self, request: web.Request) -> web.Response:
        token = request.headers["Authorization"].removeprefix("Bearer ")
        self.asked.append((request.method, request.path))
        self.claims.append(verify(token, TokenType.WAKE, RING, NOW.timestamp()))
        return web.json_response({}, status=202)


async def answer(request: web.Request) -> web.Response:
    return web.Response(text=(await request.read()).decode() or "up")


@asynccontextmanager
async def sleeping(api: Api, of: GPUUnit = ASLEEP, *, hold: float = 5.0) -> AsyncIterator[Caller]:
    time = GatewayTimeSettings(wakeHold=Seconds(hold))
    async with upstream(api.serve) as asked, upstream(answer) as port:
        address = f"http://127.0.0.1:{asked}"
        async with gateway(port, of, api=address, time=time) as caller:
            yield caller


async def test_many_callers_resume_a_unit_once_and_are_all_answered() -> None:
    api = Api()

    async def status(caller: Caller) -> tuple[int, str]:
        async with caller.request("POST", "/", headers=BEARER, data=b"body") as got:
            return int(got.status), await got.text() if got.status == 200 else ""

    async with sleeping(api) as caller, asyncio.TaskGroup() as tasks:
        asking = [tasks.create_task(status(caller)) for _ in range(MOST_HELD_PER_UNIT + 20)]
        await eventually(lambda: sum(each.done() for each in asking), lambda done: done == 20)
        caller.world.put(AWAKE)
    assert Counter(each.result() for each in asking) == {
        (200, "body"): MOST_HELD_PER_UNIT,
        (503, ""): 20,
    }
    assert api.asked == [("POST", "/api/v1/gpu-units/demo/wake")]
    assert [(each.uid, each.exp - each.iat) for each in api.claims] == [("uid-of-demo", 60)]


async def test_200_callers_at_four_replicas_are_all_answered_after_one_change() -> None:
    async with AsyncExitStack() as opened:
        api = await opened.enter_async_context(served(wake=True))
        port = await opened.enter_async_context(upstream(answer))
        await change(api, suspended=True)
        asleep = await api.replica.inventory.units.get("demo")
        address = str(api.client.make_url("/")).rstrip("/")
        replicas = []
        for _ in range(4):
            opening = gateway(port, asleep, api=address)
            replicas.append(await opened.enter_async_context(opening))
            replicas[-1].world.now = clock()
        issued_at = int(clock().timestamp())
        bearer = {"Authorization": f"Bearer {ticket(asleep, iat=issued_at, exp=issued_at + 900)}"}
        written = len(api.replica.transport.written())

        async def status(caller: Caller) -> tuple[int, str]:
            host = host_of(asleep)
            async with caller.request("POST", host=host, headers=bearer, data=b"body") as got:
                return int(got.status), await got.text()

        async with asyncio.TaskGroup() as tasks:
            asking = [tasks.create_task(status(replicas[n % 4])) for n in range(200)]
            resumed = await eventually(
                lambda: api.replica.inventory.units.get("demo"),
                lambda unit: not unit.spec.suspended,
            )
            for each in replicas:
                each.world.put(with_ready(resumed, UnitReason.DEPLOYMENT_READY))
        assert Counter(each.result() for each in asking) == {(200, "body"): 200}
        last = await api.replica.inventory.units.get("demo")
    # Each replica asks once. Their requests race at the API, and one of them changes the unit.
    asked = api.replica.transport.written()[written:]
    assert 1 <= len(asked) <= len(replicas)
    assert resumed.metadata.generation == asleep.metadata.generation + 1
    assert resumed.metadata.resourceVersion == last.metadata.resourceVersion


@pytest.mark.parametrize(
    ("now", "words"),
    [
        pytest.param(WAITING, "PodUnschedulable: no node is free", id="without capacity"),
        pytest.param(FAILED, "PodStartupFailed: exit code 1", id="failed"),
        pytest.param(SCALED, "demo is being resumed: it starts", id="its condition is old"),
    ],
)
async def test_a_unit_that_does_not_come_up_says_why(now: GPUUnit, words: str) -> None:
    api = Api()
    async with (
        sleeping(api, now, hold=0.3) as caller,
        caller.request("GET", "/", headers=BEARER) as got,
    ):
        assert (got.status, "Retry-After" in got.headers) == (503, True)
        error = (await got.json())["error"]
    assert error["code"] == "unit_waking"
    assert words in error["message"]
    assert api.asked == [], "it is resumed already"


async def test_a_browser_gets_a_page_that_loads_again() -> None:
    api = Api()
    async with (
        sleeping(api) as caller,
        caller.request("GET", "/", headers={**BEARER, **NAVIGATION}) as got,
    ):
        assert (got.status, got.content_type) == (503, "text/html")
        assert "http-equiv=refresh" in await got.text()
        assert got.headers["Retry-After"] == "2"
    assert len(api.asked) == 1


async def test_no_body_is_taken_while_the_unit_wakes() -> None:
    api = Api()
    async with sleeping(api) as caller:
        reader, writer = await asyncio.open_connection("127.0.0.1", caller.port)
        with closing(writer):
            writer.write(
                f"PUT / HTTP/1.1\r\nHost: {host_of()}\r\nContent-Length: 4\r\n"
                "Expect: 100-continue\r\nConnection: close\r\n"
                f"Authorization: {BEARER['Authorization']}\r\n\r\n".encode()
            )
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.3):
                    await reader.readexactly(1)
            caller.world.put(AWAKE)
            assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
            writer.write(b"body")
            assert (await reader.read()).endswith(b"body")


@pytest.mark.parametrize(
    ("asleep", "code"),
    [
        pytest.param(unit(suspended=True), "unit_suspended", id="without wake"),
        pytest.param(
            unit(suspended=True, wake=True, generation=1), "ticket_refused", id="revoked"
        ),
    ],
)
async def test_others_resume_nothing(asleep: GPUUnit, code: str) -> None:
    api = Api()
    async with sleeping(api, asleep) as caller, caller.request("GET", "/", headers=BEARER) as got:
        assert (await got.json())["error"]["code"] == code
    assert api.asked == []


async def test_a_gateway_without_an_api_resumes_nothing() -> None:
    async with gateway(None, ASLEEP) as caller, caller.request("GET", "/", headers=BEARER) as got:
        assert got.status == 503
        assert (await got.json())["error"]["code"] == "unit_suspended", "nothing resumes it"
