"""The console in the whole product: its address, the names it answers to, and a quick end."""

import asyncio
import io

import aiohttp
import pytest

from tests.rooms.roles.dev.test_dev import SIMULATED, printed, running

pytestmark = pytest.mark.looptime


async def test_dev_reports_the_console_and_rejects_foreign_host_names() -> None:
    output = io.StringIO()
    async with running(output, programs=SIMULATED), aiohttp.ClientSession() as session:
        async with session.get(printed(output, "console")) as page:
            assert (page.status, page.content_type) == (200, "text/html")
        units = f"{printed(output, 'api')}/api/v1/gpu-units"
        async with session.get(units, headers={"Host": "evil.example"}) as answer:
            assert answer.status == 403
        async with session.delete(
            f"{units}/a", headers={"Origin": "http://evil.example"}
        ) as answer:
            assert answer.status == 403


async def test_open_streams_do_not_delay_the_end() -> None:
    """The grace is ten seconds, and none of it is used."""
    output, loop = io.StringIO(), asyncio.get_running_loop()
    async with aiohttp.ClientSession() as session:
        async with running(output, programs=SIMULATED):
            stream = await session.get(f"{printed(output, 'console')}events/fleet")
            assert (await stream.content.readuntil(b"\n")) == b"event: fleet\n"
            begun_at = loop.time()
        assert loop.time() - begun_at < 1
        assert await stream.content.read() is not None
        stream.close()
