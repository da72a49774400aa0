"""Probes against a listener with a chosen answer."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import attrs
import pytest

from gpuruntime.embedded.kinds.container_objects import HttpGet, Probe, TcpSocket
from gpuruntime.embedded.processes.probes import problem, wait_until_failed, wait_until_passed

pytestmark = pytest.mark.looptime

ASKED = Probe(
    httpGet=HttpGet(path="/healthz"), timeoutSeconds=2, periodSeconds=3, failureThreshold=2
)


@attrs.define
class Listener:
    port: int
    status: int = 200
    asked: int = 0


@asynccontextmanager
async def listener(status: int = 200) -> AsyncIterator[Listener]:
    """Yield a listener; status 0 means that it never answers."""
    answering = Listener(0, status)
    silent: list[asyncio.StreamWriter] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        line = await reader.readline()
        answering.asked += line.startswith(b"GET /healthz ")
        if answering.status:
            writer.write(f"HTTP/1.1 {answering.status} so\r\n\r\n".encode())
            writer.close()
        else:
            silent.append(writer)

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    answering.port = server.sockets[0].getsockname()[1]
    async with server:
        yield answering
        for writer in silent:
            writer.close()


@pytest.mark.parametrize(("status", "words"), [(200, ""), (302, ""), (503, "HTTP status 503")])
async def test_a_status_below_400_passes(status: int, words: str) -> None:
    async with listener(status) as answering:
        assert await problem(ASKED, answering.port, within_seconds=2) == words


async def test_a_missing_answer_fails_after_the_timeout() -> None:
    async with listener(0) as answering:
        assert await problem(ASKED, answering.port, within_seconds=2) == "no answer within 2 s"


async def test_a_port_without_listener_fails() -> None:
    async with listener() as answering:
        pass
    probe = Probe(tcpSocket=TcpSocket(port=1))
    assert "Connect call failed" in await problem(probe, answering.port, within_seconds=2)


async def test_a_probe_without_request_passes() -> None:
    assert await problem(Probe(), 1, within_seconds=1) == ""


async def test_a_starting_container_is_probed_often_and_only_for_its_threshold() -> None:
    loop = asyncio.get_running_loop()
    async with listener(503) as answering:
        began_at = loop.time()
        assert await wait_until_passed(ASKED, answering.port) == "HTTP status 503"
        assert 6.0 <= loop.time() - began_at < 6.5
        assert answering.asked > 50
        answering.status = 200
        assert await wait_until_passed(ASKED, answering.port) == ""


async def test_a_single_failed_probe_is_no_failure() -> None:
    loop = asyncio.get_running_loop()
    async with listener() as answering, asyncio.TaskGroup() as tasks:
        began_at = loop.time()
        failed = tasks.create_task(wait_until_failed(ASKED, answering.port))
        await asyncio.sleep(2)
        answering.status = 503
        await asyncio.sleep(2)
        answering.status = 200
        await asyncio.sleep(3)
        answering.status = 503
        assert await failed == "HTTP status 503"
        assert loop.time() - began_at == pytest.approx(12, abs=0.5)
