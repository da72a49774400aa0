"""Commands that reach into a unit: their streams, their exit codes and their words."""

import asyncio
import contextlib
import fcntl
import os
import shlex
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import AsyncIterator, Iterator
from hashlib import sha256
from pathlib import Path
from typing import IO

import attrs
import pytest
import pytest_asyncio

from gpuruntime.models.kinds.templates import Port, PortProtocol, Template
from tests.eventually import eventually
from tests.rooms.client.gateway import READY, SUSPENDED, TICKET, Site, reachable
from tests.rooms.client.test_reach import asked, upper
from tests.rooms.commands.running import run_command


@pytest_asyncio.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    async with reachable(tmp_path) as found:
        yield found


@attrs.frozen
class Ended:
    code: int
    out: bytes
    err: bytes
    words: str


async def attached(site: Site, words: str, given: bytes | IO[bytes] = b"") -> Ended:
    """Run a command whose program has pipes, or the given file as its input."""
    with contextlib.ExitStack() as files:
        read = files.enter_context(_file_with(given) if isinstance(given, bytes) else given)
        out, err = (files.enter_context(_Collected()) for _ in range(2))
        output = await run_command(
            words, site.address, streams=(read.fileno(), out.number, err.number)
        )
        return Ended(output.code, await out.all(), await err.all(), output.err)


def _file_with(text: bytes) -> IO[bytes]:
    one, other = os.pipe()
    with os.fdopen(other, "wb") as file:
        file.write(text)
    return os.fdopen(one, "rb")


class _Collected:
    """A pipe whose content is read as it comes."""

    def __init__(self) -> None:
        one, self.number = os.pipe()
        self._read = os.fdopen(one, "rb", 0)
        self._content = asyncio.get_running_loop().run_in_executor(None, self._read.read)

    def __enter__(self) -> "_Collected":
        return self

    def __exit__(self, *_: object) -> None:
        if self.number >= 0:
            os.close(self.number)

    async def all(self) -> bytes:
        os.close(self.number)
        self.number = -1
        found = await self._content
        self._read.close()
        return found


async def test_exec_ends_with_the_exit_code_of_the_program(site: Site) -> None:
    script = shlex.quote("echo out; echo err >&2; exit 7")
    ended = await attached(site, f"units exec demo -- sh -c {script}")
    assert ended == Ended(7, b"out\n", b"err\n", "")


async def test_exec_passes_stdin_on_only_with_the_flag(site: Site) -> None:
    assert (await attached(site, "units exec demo -- cat", b"text")).out == b""
    assert (await attached(site, "units exec -i demo -- cat", b"text")).out == b"text"


async def test_a_file_may_be_the_input(site: Site, tmp_path: Path) -> None:
    path = tmp_path / "input"
    path.write_bytes(b"\x00\xff" * 5000)
    with path.open("rb") as file:
        assert (await attached(site, "units exec -i demo -- cat", file)).out == b"\x00\xff" * 5000


async def test_64_mib_come_back_as_they_were_sent(site: Site, tmp_path: Path) -> None:
    path = tmp_path / "input"
    with path.open("wb") as file:
        for _ in range(64):
            file.write(os.urandom(1024 * 1024))
    with path.open("rb") as file:
        ended = await attached(site, "units exec -i demo -- cat", file)
    assert sha256(ended.out).digest() == sha256(path.read_bytes()).digest()


async def test_a_program_may_end_before_its_input_does(site: Site) -> None:
    one, other = os.pipe()
    with os.fdopen(one, "rb") as never_ending, os.fdopen(other, "wb"):
        ended = await attached(site, "units exec -i demo -- true", never_ending)
    assert (ended.code, ended.words) == (0, "")


async def test_shell_without_a_terminal_reads_its_script_from_stdin(site: Site) -> None:
    ended = await attached(site, "units shell demo", b"echo $((6 * 7)); exit 3\n")
    assert (ended.code, ended.out) == (3, b"42\n")


async def test_a_gateway_that_dies_is_255_and_not_the_programs_code(site: Site) -> None:
    async with asyncio.TaskGroup() as group:
        running = group.create_task(attached(site, "units exec demo -- sleep 60"))
        await eventually(lambda: site.programs.ran)
        site.cut()
    ended = running.result()
    assert ended.code == 255
    assert "unit demo ended before the program did" in ended.words


NOT_RUN = {
    "an unknown unit": ("gateway", 404, "gpuunit_not_found", "it is gpuunit_not_found"),
    "no gateway": ("tickets", 409, "gateway_off", "ask the operator of the API"),
    "a gateway without exec": ("tickets", 409, "exec_off", "`units open`, `units forward`"),
    "a ticket refused": ("exec", 403, "ticket_refused", "it is ticket_refused"),
    "a unit suspended meanwhile": ("exec", 503, "unit_suspended", "units resume demo --wait"),
}


@pytest.mark.parametrize(("verb", "status", "code", "words"), NOT_RUN.values(), ids=NOT_RUN)
async def test_a_program_that_is_not_run_is_125_with_words(
    site: Site, verb: str, status: int, code: str, words: str
) -> None:
    site.refusals["" if verb == "gateway" else verb] = (status, {"code": code})
    ended = await attached(site, "units exec demo -- true")
    assert (ended.code, ended.out, ended.words.count("\n")) == (125, b"", 1)
    assert ended.words.startswith("gpuruntime units exec: ")
    assert words in ended.words
    assert TICKET not in ended.words


@pytest.mark.looptime
async def test_an_unreachable_api_is_named_with_its_flag() -> None:
    output = await run_command("units shell demo", "http://127.0.0.1:9")
    assert (output.code, "--server" in output.err) == (125, True)


async def test_a_missing_program_and_a_missing_command_are_125(site: Site) -> None:
    ended = await attached(site, "units exec demo -- no-such-program")
    assert (ended.code, "unit demo cannot run it" in ended.words) == (125, True)
    ended = await attached(site, "units exec demo")
    assert (ended.code, "two dashes" in ended.words) == (125, True)


async def test_wrong_usage_of_exec_is_125_as_well() -> None:
    with pytest.raises(SystemExit) as end:
        await run_command("units exec", "")
    assert end.value.code == 125
    with pytest.raises(SystemExit) as end:
        await run_command("units get", "")
    assert end.value.code == 2


@pytest.fixture
def asleep(site: Site) -> Site:
    access = attrs.evolve(site.unit.access, wake=True)
    site.unit = attrs.evolve(site.unit, access=access, **SUSPENDED)
    return site


async def test_a_unit_that_may_be_woken_is_woken_and_its_condition_shown(asleep: Site) -> None:
    ended = await attached(asleep, "units exec demo -- echo up")
    assert (ended.code, ended.out, asleep.wakes) == (0, b"up\n", 1)
    assert "unit demo is suspended: waking it" in ended.words
    assert "pulling image" in ended.words


async def test_a_unit_that_may_not_be_woken_is_left_asleep_in_words(site: Site) -> None:
    site.unit = attrs.evolve(site.unit, **SUSPENDED)
    ended = await attached(site, "units exec demo -- echo up")
    assert (ended.code, site.wakes, site.tickets) == (125, 0, [])
    assert "unit demo: it is suspended: " in ended.words
    assert "`gpuruntime units resume demo --wait`" in ended.words
    assert (await run_command("units open demo", site.address)).code == 1


async def test_wake_prints_the_unit_and_waits_for_it(asleep: Site) -> None:
    output = await run_command("units wake demo --wait", asleep.address)
    assert (output.code, asleep.wakes) == (0, 1)
    assert "Ready" in output.out


def declares(site: Site, *ports: Port) -> None:
    site.unit = attrs.evolve(site.unit, template=Template(ports=ports), **READY)


UDP = Port(name="dns", port=53, protocol=PortProtocol.UDP)
HTTP = Port(name="http", port=8080)
ADMIN = Port(name="admin", port=9090)
OPENED: dict[str, tuple[tuple[Port, ...], str, int, str]] = {
    "the only TCP port": ((HTTP, UDP), "", 0, "http://8080--demo.localhost/"),
    "a port by its name": ((HTTP, ADMIN), "admin", 0, "http://9090--demo.localhost/"),
    "one of several": ((HTTP, ADMIN), "", 2, "name one of 8080 (http), 9090 (admin)"),
    "no port": ((UDP,), "", 2, "unit demo declares no TCP port"),
}


@pytest.mark.parametrize(("ports", "named", "code", "words"), OPENED.values(), ids=OPENED)
async def test_open_prints_the_url_of_a_port_or_says_which_there_are(
    site: Site, ports: tuple[Port, ...], named: str, code: int, words: str
) -> None:
    declares(site, *ports)
    output = await run_command(f"units open demo {named}", site.address)
    assert (output.code, words in output.out + output.err) == (code, True)


async def test_open_on_a_terminal_shows_the_browser_a_file_and_no_ticket(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = tmp_path / "seen"
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\necho "$@" >{seen}\n')
    browser.chmod(0o755)
    monkeypatch.setenv("BROWSER", str(browser))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr("webbrowser._tryorder", None)
    output = await run_command("units open demo", site.address, is_screen=True)
    assert output.code == 0
    page = tmp_path / ".cache/gpuruntime/open.html"
    await eventually(lambda: seen.exists() and seen.read_text() == f"{page.as_uri()}\n")
    assert "url=http://8080--demo.localhost/.gpuruntime/enter?ticket=an-entry" in page.read_text()
    assert page.stat().st_mode & 0o777 == 0o600
    page.unlink()
    output = await run_command("units open demo --print", site.address, is_screen=True)
    assert not page.exists()


@contextlib.asynccontextmanager
async def forwarding(site: Site, ports: str) -> AsyncIterator["list[int]"]:
    """Run the command as a process until the block ends. Yield its local ports."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "gpuruntime", "units", "forward", "demo", *ports.split()),
        env={**os.environ, "GPURUNTIME_SERVER": site.address},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        lines = [(await process.stdout.readline()).decode() for _ in ports.split()]
        yield [int(line.split()[0].partition(":")[2]) for line in lines]
    finally:
        process.send_signal(signal.SIGTERM)
        said = await process.stderr.read()
        assert await process.wait() == 128 + signal.SIGTERM
        assert said == b""


async def test_forward_says_where_it_listens_and_ends_quietly(site: Site) -> None:
    server = await asyncio.start_server(upper, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        declares(site, Port(name="http", port=port))
        async with forwarding(site, f":{port} :http") as ports:
            answers = [await asked(each, b"x") for each in ports]
    assert answers == [b"X", b"X"]
    assert [each["port"] for each in site.tickets] == [str(port), "http"]


async def test_a_local_port_that_is_taken_is_named(site: Site) -> None:
    server = await asyncio.start_server(upper, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        output = await run_command(f"units forward demo {port}:8080", site.address)
    assert output.code == 2
    assert f"port {port} of this machine" in output.err
    assert ":8080" in output.err


@pytest.mark.parametrize("port", ["x:1", "70000:1", "1:", "70000", "1:2:3"])
async def test_a_port_that_is_none_is_refused_here(site: Site, port: str) -> None:
    output = await run_command(f"units forward demo {port}", site.address)
    assert (output.code, "is no port such as" in output.err) == (2, True)


class Pseudo:
    """A process on a pseudo-terminal of its own, as in a window."""

    def __init__(self, site: Site, words: str) -> None:
        self.number, inner = os.openpty()
        self.resize(37, 91, number=inner)
        self.before = termios.tcgetattr(inner)
        terminal = Path(__file__).parents[3] / "gpuruntime/embedded/processes/terminal.py"
        self.process = subprocess.Popen(
            [sys.executable, str(terminal), sys.executable, "-m", "gpuruntime", *words.split()],
            stdin=inner,
            stdout=inner,
            stderr=inner,
            start_new_session=True,
            env={**os.environ, "GPURUNTIME_SERVER": site.address},
        )
        self._inner = inner
        self.shown = b""
        os.set_blocking(self.number, False)

    def resize(self, rows: int, columns: int, *, number: int = -1) -> None:
        size = struct.pack("HHHH", rows, columns, 0, 0)
        fcntl.ioctl(self.number if number < 0 else number, termios.TIOCSWINSZ, size)

    @property
    def is_raw(self) -> bool:
        return not termios.tcgetattr(self._inner)[3] & termios.ICANON

    @property
    def is_restored(self) -> bool:
        return termios.tcgetattr(self._inner) == self.before

    def press(self, keys: bytes) -> None:
        os.write(self.number, keys)

    async def shows(self, text: bytes) -> None:
        def look() -> bytes:
            with contextlib.suppress(BlockingIOError, OSError):
                self.shown += os.read(self.number, 65_536)
            return self.shown

        await eventually(look, lambda shown: text in shown, poll_seconds=0.02)

    async def code(self) -> int | None:
        return await eventually(self.process.poll, lambda code: code is not None)

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self.number)
        os.close(self._inner)


@contextlib.contextmanager
def on_a_terminal(site: Site, words: str) -> Iterator[Pseudo]:
    window = Pseudo(site, words)
    try:
        yield window
    finally:
        window.close()


async def test_a_terminal_passes_keys_and_sizes_on_and_is_restored(site: Site) -> None:
    with on_a_terminal(site, "units shell demo") as window:
        window.press(b"stty size\r")
        await window.shows(b"37 91")
        assert window.is_raw
        window.resize(50, 120)
        window.press(b"until stty size | grep '50 120'; do sleep 0.01; done\r")
        await window.shows(b"50 120\r\n")
        window.press(b"sleep 60 || echo was-interrupted\r")
        await asyncio.sleep(0.1)
        window.press(b"\x03")
        window.press(b"echo $((6 * 7)); exit 9\r")
        await window.shows(b"42\r\n")
        assert await window.code() == 9
        assert window.is_restored


async def test_a_signal_restores_the_terminal(site: Site) -> None:
    with on_a_terminal(site, "units exec -it demo -- cat") as window:
        await eventually(lambda: window.is_raw)
        window.process.send_signal(signal.SIGHUP)
        assert await window.code() == 128 + signal.SIGHUP
        assert window.is_restored


async def test_a_dead_gateway_restores_the_terminal(site: Site) -> None:
    with on_a_terminal(site, "units exec -it demo -- cat") as window:
        window.press(b"typed\r")
        await window.shows(b"typed\r\ntyped")
        site.cut()
        assert await window.code() == 255
        assert window.is_restored
        await window.shows(b"unit demo ended before the program did")


async def test_a_port_that_the_unit_does_not_name_is_told_with_those_that_it_does(
    site: Site,
) -> None:
    declares(site, Port(name="http", port=8080), Port(name="web-2", port=9000))
    output = await run_command("units forward demo nothing", site.address)
    assert output.code == 2
    assert "unit demo has no port nothing: it declares 8080 (http), 9000 (web-2)" in output.err
