"""A unit of dev through its gateway, by tickets alone: commands, ports and the terminal."""

import asyncio
import io
import shutil
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import aiohttp
import pytest
import yaml

from gpuruntime.client import Client, NewStock, NewUnit, Options, TerminalSize, connect
from gpuruntime.client.errors import ClientError, CutOffError
from gpuruntime.client.loopback import LoopbackResolver
from gpuruntime.embedded.processes.programs import Program
from gpuruntime.models.kinds.templates import Port, Template
from gpuruntime.models.kinds.units import GPU_UNITS
from gpuruntime.models.requests.tickets import CreateTicket, Use
from tests.eventually import eventually
from tests.proofs.conformance.stream_cases import ECHO
from tests.rooms.gateway.containers.test_forward_session import echo, listening
from tests.rooms.roles.dev.test_dev import printed, running

IMAGE = "example/python:1"
PYTHON = Program(name="python", path=sys.executable)
PORT = 8000
V5 = "v5.channel.k8s.io"
# The PATH of processes that stand for containers.
PLACES = "/usr/local/bin:/usr/bin:/bin"


async def test_units_report_that_the_gateway_of_this_process_is_ready() -> None:
    output = io.StringIO()
    async with running(output), aiohttp.ClientSession() as session:
        url = cluster_in(output) + GPU_UNITS.path(namespace="runtime-instance", name="idle")
        async with connect(Options(server=printed(output, "api"))) as client:
            await client.stock.seed(NewStock(specName="s", replicas=1))
            await eventually(
                lambda: client.units.create(NewUnit(name="idle", specName="s", image=IMAGE)),
                despite=ClientError,
                within_seconds=30.0,
            )

        async def access() -> object:
            async with session.get(url) as answer:
                return (await answer.json()).get("status", {}).get("access")

        await eventually(
            access,
            lambda found: isinstance(found, dict) and found.get("gatewayReady"),
            within_seconds=20.0,
        )


def cluster_in(output: io.StringIO) -> str:
    kubeconfig = yaml.safe_load(Path(printed(output, "kubeconfig")).read_text())
    return str(kubeconfig["clusters"][0]["cluster"]["server"])


@asynccontextmanager
async def reaching() -> AsyncIterator[Client]:
    """Run dev with a unit `demo`, a process that echoes at its port."""
    output = io.StringIO()
    programs = {IMAGE: PYTHON, "python": PYTHON}
    async with AsyncExitStack() as opened:
        await opened.enter_async_context(running(output, programs=programs))
        options = Options(server=printed(output, "api"))
        client = await opened.enter_async_context(connect(options))
        await client.stock.seed(NewStock(specName="s", replicas=1))
        ports = (Port(name="echo", port=PORT),)
        template = Template(command=("python", "-c", ECHO, str(PORT)), ports=ports)
        unit = NewUnit(name="demo", specName="s", image=IMAGE, template=template)
        await eventually(
            lambda: client.units.create(unit), despite=ClientError, within_seconds=30.0
        )
        await eventually(
            lambda: client.units.get("demo"),
            lambda reply: reply.data.phase == "Ready",
            within_seconds=30.0,
        )
        yield client


async def test_commands_run_in_a_unit_and_end_with_their_tickets() -> None:
    async with reaching() as client:
        async with client.exec("demo", ["sh", "-c", "cat; exit 7"]) as process:
            await process.write(b"all of it")
            await process.end_input()
            pieces = [each.data async for each in process.output()]
        assert (pieces, process.exit_code) == ([b"all of it"], 7)

        size = TerminalSize(columns=101, rows=33)
        # The command begins before its terminal has the size.
        follow = ["sh", "-c", "until stty size | grep '33 101'; do sleep 0.1; done"]
        async with client.exec("demo", follow, terminal=size) as process:
            shown = b"".join([each.data async for each in process.output()])
        assert (shown, process.exit_code) == (b"33 101\r\n", 0)

        async with client.exec("demo", ["sleep", "60"]) as process:
            await client.units.revoke_tickets("demo")
            with pytest.raises(CutOffError, match="the session has ended: revoked"):
                async with asyncio.timeout(60):
                    await process.wait()
        assert process.exit_code is None

        await client.units.suspend("demo")
        with pytest.raises(ClientError, match="unit demo is suspended"):
            async with client.exec("demo", ["true"]):
                pass


async def exchanged(port: int, data: bytes) -> bytes:
    """Return the answer to the data and its end at a port of this machine."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(data)
    writer.write_eof()
    async with asyncio.timeout(20):
        answer = await reader.read()
    writer.close()
    return answer


async def test_ports_are_forwarded_whether_declared_or_not() -> None:
    async with reaching() as client:
        async with client.forward("demo", "echo") as port:
            assert await exchanged(port, b"hello") == b"hello"
        if shutil.which("python3", path=PLACES) is None:
            return
        async with listening(echo) as undeclared, client.forward("demo", undeclared) as port:
            assert await exchanged(port, b"hello ") == b"hello bye"


async def test_the_terminal_takes_the_session_of_its_own_origin_alone() -> None:
    async with reaching() as client:
        ticket = (await client.units.ticket("demo", CreateTicket(uses=(Use.EXEC,)))).data
        own = "{0.scheme}://{0.netloc}".format(urlsplit(ticket.terminalURL))
        connector = aiohttp.TCPConnector(resolver=LoopbackResolver())
        jar = aiohttp.CookieJar(unsafe=True)
        async with aiohttp.ClientSession(connector=connector, cookie_jar=jar) as browser:
            query = f"{own}/exec?command=echo&command=inside"
            with pytest.raises(aiohttp.WSServerHandshakeError, match="401"):
                await browser.ws_connect(query, protocols=(V5,), origin=own)
            async with browser.get(ticket.terminalURL) as page:
                assert (page.status, str(page.url)) == (200, f"{own}/")
                assert "script-src 'self';" in page.headers["Content-Security-Policy"]
                assert "unit" in await page.text()
            for origin in ("https://example.com", own.replace("terminal--", "8000--"), None):
                with pytest.raises(aiohttp.WSServerHandshakeError, match="403"):
                    await browser.ws_connect(query, protocols=(V5,), origin=origin)
            async with browser.ws_connect(query, protocols=(V5,), origin=own) as socket:
                messages = [each.data async for each in socket]
            assert b"\x01inside\n" in messages
            assert b'"Success"' in messages[-1]
