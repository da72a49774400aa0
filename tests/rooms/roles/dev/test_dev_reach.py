"""A unit of dev through its gateway, with nothing but tickets: commands and their ends."""

import asyncio
import io
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

from gpuruntime.client import Client, NewStock, NewUnit, Options, TerminalSize, connect
from gpuruntime.client.errors import ClientError, CutOffError
from gpuruntime.embedded.processes.programs import Program
from gpuruntime.models.kinds.templates import Template
from tests.eventually import eventually
from tests.rooms.roles.dev.test_dev import printed, running

IMAGE = "example/python:1"
PYTHON = Program(name="python", path=sys.executable)


@asynccontextmanager
async def reaching() -> AsyncIterator[Client]:
    """Run dev with a unit `demo`, which runs as a process."""
    output = io.StringIO()
    programs = {IMAGE: PYTHON, "python": PYTHON}
    async with AsyncExitStack() as opened:
        await opened.enter_async_context(running(output, programs=programs))
        options = Options(server=printed(output, "api"))
        client = await opened.enter_async_context(connect(options))
        await client.stock.seed(NewStock(specName="s", replicas=1))
        template = Template(command=("python", "-c", "import time; time.sleep(3600)"))
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
        async with client.exec("demo", ["stty", "size"], terminal=size) as process:
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
