"""Probes against a listener that answers as it is told."""

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
class Told:
    port: int
    status: int = 200
    asked: int = 0


@asynccontextmanager
async def listener(status: int = 200) -> AsyncIterator[Told]:
    """A status of 0 is no answer at all."""
    told = Told(0, status)
    silent: list[asyncio.StreamWriter] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        line = await reader.readline()
        told.asked += line.startswith(b"GET /healthz ")
        if told.status:
            writer.write(f"HTTP/1.1 {told.status} so\r\n\r\n".encode())
            writer.close()
        else:
            silent.append(writer)

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    told.port = server.sockets[0].getsockname()[1]
    async with server:
        yield told
        for writer in silent:
            writer.close()


@pytest.mark.parametrize(("status", "words"), [(200, ""), (302, ""), (503, "HTTP status 503")])
async def test_a_status_below_400_passes(status: int, words: str) -> None:
    async with listener(status) as told:
        assert await problem(ASKED, told.port, within_seconds=2) == words


async def test_silence_is_a_problem_after_its_time() -> None:
    async with listener(0) as told:
        assert await problem(ASKED, told.port, within_seconds=2) == "no answer within 2 s"


async def test_a_port_where_nobody_listens_is_a_problem() -> None:
    async with listener() as told:
        pass
    probe = Probe(tcpSocket=TcpSocket(port=1))
    assert "Connect call failed" in await problem(probe, told.port, within_seconds=2)


async def test_nothing_to_ask_passes() -> None:
    assert await problem(Probe(), 1, within_seconds=1) == ""


async def test_a_start_is_looked_for_often_and_only_as_long_as_it_may_take() -> None:
    loop = asyncio.get_running_loop()
    async with listener(503) as told:
        began_at = loop.time()
        assert await wait_until_passed(ASKED, told.port) == "HTTP status 503"
        assert 6.0 <= loop.time() - began_at < 6.5
        assert told.asked > 50
        told.status = 200
        assert await wait_until_passed(ASKED, told.port) == ""


async def test_one_bad_answer_is_no_failure() -> None:
    loop = asyncio.get_running_loop()
    async with listener() as told, asyncio.TaskGroup() as tasks:
        began_at = loop.time()
        failed = tasks.create_task(wait_until_failed(ASKED, told.port))
        await asyncio.sleep(2)
        told.status = 503
        await asyncio.sleep(2)
        told.status = 200
        await asyncio.sleep(3)
        told.status = 503
        assert await failed == "HTTP status 503"
        assert loop.time() - began_at == pytest.approx(12, abs=0.5)
