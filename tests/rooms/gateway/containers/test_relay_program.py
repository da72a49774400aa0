"""The relay as a process of this machine: its words, its half closes and its end."""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from gpuruntime.gateway.containers.relay_program import relay_command
from tests.rooms.gateway.containers.test_forward_session import LEFT, echo, leave, listening

BULK = bytes(range(256)) * 8000


@asynccontextmanager
async def relay(port: int, folder: Path) -> AsyncIterator[asyncio.subprocess.Process]:
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        "/bin/sh",
        *relay_command(port)[1:],
        stdin=pipe,
        stdout=pipe,
        stderr=pipe,
        env={"PATH": str(folder)},
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


@pytest.fixture
def python(tmp_path: Path) -> Path:
    """Return a folder with the only program that an image has."""
    (tmp_path / "python3").symlink_to(sys.executable)
    return tmp_path


async def finished(
    process: asyncio.subprocess.Process, given: bytes = b""
) -> tuple[bytes, bytes, int]:
    """End the relay's input with these bytes; return output, errors and exit code."""
    async with asyncio.timeout(20):
        output, errors = await process.communicate(given)
        return output, errors, await process.wait()


async def test_the_callers_half_close_reaches_the_far_side(python: Path) -> None:
    async with listening(echo) as port, relay(port, python) as process:
        output, errors, code = await finished(process, BULK)
    assert (output, code) == (BULK + b"bye", 0)
    assert errors == b"relay\nend %d\n" % len(output)


async def test_the_far_sides_half_close_leaves_the_callers_open(python: Path) -> None:
    LEFT.clear()
    async with listening(leave) as port, relay(port, python) as process:
        assert process.stderr is not None
        assert await process.stderr.readline() == b"relay\n"
        assert await process.stderr.readline() == b"end 5\n"
        output, _, code = await finished(process, b"still")
    assert (output, code, LEFT) == (b"hello", 0, [b"still"])


async def test_a_port_without_a_listener_is_said(python: Path) -> None:
    async with listening(echo) as port:
        pass
    async with relay(port, python) as process:
        _, errors, code = await finished(process)
    assert (errors.startswith(b"relay\n"), b"refused" in errors, code) == (True, True, 1)


async def test_an_image_without_a_program_has_no_relay(tmp_path: Path) -> None:
    async with relay(1, tmp_path) as process:
        output, errors, code = await finished(process)
    assert (output, b"relay" in errors.splitlines(), code) == (b"", False, 127)
