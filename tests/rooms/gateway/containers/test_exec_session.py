"""Exec sessions over a scripted cluster: what passes, what ends them, and how callers learn it."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import aiohttp
import attrs
import pytest

from gpuruntime.embedded.apiserver.socket_pair import PairedSocket
from gpuruntime.gateway.connections import Connections, End
from gpuruntime.gateway.containers.exec_session import ExecSessions
from gpuruntime.gateway.containers.session import SessionTimes
from gpuruntime.kube.client import Client
from gpuruntime.models.requests.tickets import Use
from tests.eventually import eventually
from tests.rooms.gateway.containers.scripted_cluster import (
    ScriptedCluster,
    Site,
    closed,
    new_connections,
    pod,
    serving,
    visitor,
)
from tests.rooms.kube.things import failure

TIMES = SessionTimes(idle_seconds=100.0, ping_seconds=0.1)
V5 = "v5.channel.k8s.io"
SUCCESS = b'\x03{"metadata":{},"status":"Success"}'
SEVEN = (
    b'\x03{"metadata":{},"status":"Failure","reason":"NonZeroExitCode",'
    b'"details":{"causes":[{"reason":"ExitCode","message":"7"}]}}'
)


@attrs.frozen
class Scene:
    cluster: ScriptedCluster
    connections: Connections
    site: Site

    @asynccontextmanager
    async def session(
        self, query: str = "?command=cat", **more: Any
    ) -> AsyncIterator[tuple[aiohttp.ClientWebSocketResponse, PairedSocket]]:
        """Open a session; yield the caller's end and the API server's."""
        async with self.site.open(query, protocols=(V5,), **more) as caller:
            yield caller, await self.cluster.opened.get()


@asynccontextmanager
async def scene(*pods: dict[str, Any], times: SessionTimes = TIMES) -> AsyncIterator[Scene]:
    cluster, connections = ScriptedCluster(*pods), new_connections()
    sessions = ExecSessions(Client(cluster), connections, times)
    async with serving(sessions.serve, visitor(Use.EXEC)) as site:
        yield Scene(cluster, connections, site)


async def test_a_session_runs_the_command_in_the_units_container() -> None:
    async with scene() as at, at.session("?command=sh&command=-c&command=a b") as (caller, _):
        assert caller.protocol == V5
        listing, opening = at.cluster.requests
    assert dict(listing.query)["labelSelector"] == "runtime.lokiwager.io/unit-uid=6d1d2b1e"
    assert opening.path == "/api/v1/namespaces/lab/pods/demo-1/exec"
    assert opening.query[:4] == (
        ("container", "runtime"),
        ("command", "sh"),
        ("command", "-c"),
        ("command", "a b"),
    )


async def test_the_ticket_among_the_sub_protocols_is_not_echoed() -> None:
    async with scene() as at:
        offered = ("gpuruntime.ticket.secret", V5)
        async with at.site.open("?command=cat", protocols=offered) as caller:
            assert caller.protocol == V5


async def test_messages_pass_both_ways_and_the_status_comes_last() -> None:
    async with scene() as at, at.session() as (caller, server):
        for message in (b"\x00hello", b'\x04{"Width":1,"Height":2}', b"\xff\x00"):
            await caller.send_bytes(message)
            assert await server.receive() == message
        for message in (b"\x01", b"\x01out", b"\x02err", SEVEN, b"\x01late"):
            await server.send(message)
        await server.close()
        assert await closed(caller) == (
            [b"\x01", b"\x01out", b"\x02err", b"\x01late", SEVEN],
            1000,
            "",
        )


async def test_the_size_of_the_terminal_is_sent_first() -> None:
    async with scene() as at, at.session("?tty=true&columns=101&rows=33") as (_, server):
        assert await server.receive() == b'\x04{"Width":101,"Height":33}'


async def test_a_size_that_no_terminal_has_ends_nothing() -> None:
    async with scene() as at, at.session() as (caller, server):
        await caller.send_bytes(b'\x04{"Width":0,"Height":0}')
        await caller.send_bytes(b"\x00on")
        assert await server.receive() == b"\x00on"


BAD: dict[str, tuple[bytes | str, int, str]] = {
    "output": (b"\x01x", 1008, "callers send channel 0"),
    "text": ("hello", 1008, "messages are binary"),
    "33 KiB": (b"\x00" * (33 * 1024), 1009, ""),
}


@pytest.mark.parametrize(("message", "code", "words"), BAD.values(), ids=BAD)
async def test_a_message_that_no_caller_may_send_ends_the_session(
    message: bytes | str, code: int, words: str
) -> None:
    async with scene() as at, at.session() as (caller, server):
        if isinstance(message, str):
            await caller.send_str(message)
        else:
            await caller.send_bytes(message)
        _, seen, said = await closed(caller)
        assert (seen, words in said) == (code, True)
        assert await server.receive() is None


async def test_a_command_that_is_cut_off_has_no_status() -> None:
    async with scene() as at, at.session() as (caller, server):
        await server.send(b"\x01half")
        await server.close()
        messages, code, words = await closed(caller)
    assert (messages, code) == ([b"\x01half"], 4502)
    assert "cut off" in words


async def test_a_login_shell_without_sh_is_explained() -> None:
    missing = {
        "status": "Failure",
        "code": 500,
        "message": 'exec: "sh": executable file not found in $PATH',
    }
    async with scene() as at, at.session("") as (caller, server):
        await server.send(b"\x03" + json.dumps(missing).encode())
        await server.close()
        ((status,), code, _) = await closed(caller)
    assert code == 1000
    assert json.loads(status[1:])["message"].startswith("the image has no sh: name a command")


async def test_the_end_of_a_caller_ends_the_command() -> None:
    async with scene() as at, at.session() as (caller, server):
        await caller.close()
        assert await server.receive() is None
        await eventually(lambda: len(at.connections), lambda count: count == 0)


ENDS = {
    End.REVOKED: (4403, "the session has ended: revoked"),
    End.EXPIRED: (4403, "the session has ended: expired"),
    End.STOPPING: (1001, "this replica is stopping: connect again"),
    End.UNKNOWN: (4503, "the cluster is silent: connect again later"),
}


@pytest.mark.parametrize("end", ENDS, ids=str)
async def test_a_session_ends_with_its_connection(end: End) -> None:
    async with scene() as at, at.session() as (caller, server):
        at.connections.end_all(end)
        _, code, words = await closed(caller)
        assert (code, words) == ENDS[end]
        assert await server.receive() is None


async def fills(send: Callable[[], Awaitable[None]]) -> int:
    """Return how many messages are sent until one has to wait."""
    count = 0
    with suppress(TimeoutError):
        while count < 2000:
            async with asyncio.timeout(0.3):
                await send()
            count += 1
    return count


async def test_a_caller_that_takes_nothing_holds_up_the_command_and_not_the_end() -> None:
    """Its kernel takes some megabytes, so it is sent more than that."""
    async with scene() as at, at.session() as (_, server):
        assert await fills(lambda: server.send(b"\x01" + bytes(2**20 - 1))) < 64
        at.connections.end_all(End.REVOKED)
        await eventually(lambda: len(at.connections), lambda n: n == 0, within_seconds=20)


async def test_a_command_that_takes_nothing_holds_up_the_caller() -> None:
    async with scene() as at, at.session() as (caller, server):
        assert await fills(lambda: caller.send_bytes(b"\x00" + bytes(32 * 1024))) < 2000
        assert await server.receive() is not None
        await server.close()


async def test_the_limit_of_programs_holds_for_a_unit() -> None:
    async with scene() as at, at.session(), at.session() as (caller, _):
        status, words = await at.site.refusal("?command=cat")
        assert (status, "as many as execPerUnit allows" in words) == (429, True)
        await caller.close()
        await eventually(lambda: len(at.connections), lambda count: count == 1)
        async with at.session():
            pass


REFUSED: dict[str, tuple[str, dict[str, str], str]] = {
    "another container": ("?container=worker", {}, "'container' is no parameter"),
    "a plain request": ("", {"Upgrade": "h2c"}, "this path is a WebSocket"),
    "an earlier protocol": (
        "",
        {"Sec-WebSocket-Protocol": "v4.channel.k8s.io"},
        "offer the sub-protocol v5.channel.k8s.io",
    ),
}


@pytest.mark.parametrize(("query", "headers", "words"), REFUSED.values(), ids=REFUSED)
async def test_a_faulty_request_reaches_no_pod(
    query: str, headers: dict[str, str], words: str
) -> None:
    async with scene() as at:
        status, message = await at.site.refusal(query, **headers)
        assert (status, words in message, at.cluster.requests) == (400, True, [])


PODS = {
    "no Pod": [],
    "a Pod that waits": [pod("demo-1", phase="Pending")],
    "a Pod that ends": [pod("demo-1", is_deleted=True)],
}


@pytest.mark.parametrize("pods", PODS.values(), ids=PODS)
async def test_a_unit_that_runs_no_pod_is_unavailable(pods: list[dict[str, Any]]) -> None:
    async with scene() as at:
        at.cluster.pods[:] = pods
        assert await at.site.refusal() == (
            503,
            "unit demo runs no Pod: see its conditions, and retry",
        )


async def test_of_two_pods_the_newest_is_taken() -> None:
    pods = (
        pod("new", created="2026-01-02T00:00:00Z"),
        pod("newest", created="2026-01-03T00:00:00Z", phase="Pending"),
        pod("old"),
    )
    async with scene(*pods) as at, at.session():
        assert "/pods/new/exec" in at.cluster.requests[-1].path


async def test_a_refusal_of_the_cluster_is_told() -> None:
    async with scene() as at:
        at.cluster.refusal = failure(404, "NotFound", 'pods "demo-1" not found')
        status, words = await at.site.refusal()
        assert (status, "unit demo cannot be reached" in words) == (502, True)
        at.cluster.refusal = failure(403, "Forbidden", "no exec here")
        status, words = await at.site.refusal()
        assert (status, "install manifests/gateway-exec" in words) == (503, True)
        at.cluster.unreadable = failure(403, "Forbidden", "no pods here")
        status, words = await at.site.refusal()
        assert (status, "install manifests/gateway-exec" in words) == (503, True)
        assert len(at.connections) == 0


async def test_an_idle_session_ends() -> None:
    async with scene(times=SessionTimes(idle_seconds=0.3)) as at, at.session() as (caller, _):
        await caller.send_bytes(b"\x00on")
        _, code, words = await closed(caller)
        assert (code, words) == (4408, "no byte has passed for 0.3 s")


async def test_a_session_that_passes_bytes_either_way_is_not_idle() -> None:
    async with scene(times=SessionTimes(idle_seconds=0.4)) as at, at.session() as (caller, server):
        for number in range(8):
            await asyncio.sleep(0.1)
            await (server.send(b"\x01x") if number % 2 else caller.send_bytes(b"\x00x"))
        await server.send(SUCCESS)
        await server.close()
        assert (await closed(caller))[1] == 1000


async def test_a_caller_that_answers_no_ping_is_gone() -> None:
    async with scene() as at, at.session(autoping=False) as (caller, server):
        async with asyncio.timeout(10):
            assert await server.receive() is None
        assert (await caller.receive()).type is aiohttp.WSMsgType.PING


async def test_a_caller_that_answers_stays() -> None:
    async with scene() as at, at.session() as (caller, server):
        async with asyncio.TaskGroup() as tasks:
            answering = tasks.create_task(caller.receive())
            await asyncio.sleep(0.5)
            assert not answering.done()
            await server.send(b"\x01still")
        assert answering.result().data == b"\x01still"


async def test_a_caller_whose_input_waits_for_the_command_is_not_judged_by_its_pongs() -> None:
    async with scene() as at, at.session(autoping=False) as (caller, server):
        for _ in range(8):
            await caller.send_bytes(b"\x00" + bytes(32 * 1024))
        await asyncio.sleep(0.5)
        for _ in range(8):
            assert await server.receive() is not None
