"""Sessions over real connections: streams, exit codes, terminals, environment and signals."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import asyncssh
import attrs
import pytest

from gpuruntime.gateway.ssh.container import ContainerError, Execution, Program
from gpuruntime.gateway.ssh.programs import SESSION
from gpuruntime.gateway.ssh.sessions import FAILED
from gpuruntime.gateway.ssh.unit_connection import MOST_SESSIONS
from gpuruntime.models.kubernetes.exec_streams import Output
from tests.eventually import eventually
from tests.rooms.gateway.ssh.local_container import LocalContainer
from tests.rooms.gateway.ssh.ssh_world import LIMITS, ssh_world

CONTENT = random.Random(3).randbytes(2_000_000)


async def test_a_command_has_its_streams_its_exit_code_and_its_home(tmp_path: Path) -> None:
    async with ssh_world(tmp_path) as world, await world.login() as connection:
        ended = await connection.run("cat; pwd; echo fault >&2; exit 7", input="given\n")
    assert ended.stdout == f"given\n{tmp_path}\n"
    assert (ended.stderr, ended.exit_status) == ("fault\n", 7)


@pytest.mark.parametrize(
    ("command", "code"),
    [
        pytest.param("true", 0, id="success"),
        pytest.param("exit 255", 255, id="the highest code"),
        pytest.param("no-such-program", 127, id="a program that is not there"),
        pytest.param("kill -9 $$", 137, id="a signal, as the container reports it"),
        pytest.param("test 'a  b' = \"$(echo 'a  b')\"", 0, id="quotes"),
        pytest.param("x=1; [[ $x == 1 ]]", 0, id="words that only bash has"),
    ],
)
async def test_the_exit_code_is_the_programs(tmp_path: Path, command: str, code: int) -> None:
    async with ssh_world(tmp_path) as world, await world.login() as connection:
        assert (await connection.run(command)).exit_status == code


async def test_bytes_come_back_as_they_were(tmp_path: Path) -> None:
    async with ssh_world(tmp_path) as world, await world.login() as connection:
        ended = await connection.run("cat", input=CONTENT, encoding=None)
        assert ended.stdout == CONTENT


async def test_a_command_that_writes_a_file_has_all_of_its_input(tmp_path: Path) -> None:
    async with ssh_world(tmp_path) as world, await world.login() as connection:
        await connection.run("exec cat >there", input=CONTENT, encoding=None)
    assert (tmp_path / "there").read_bytes() == CONTENT


async def test_a_shell_reads_a_script_from_its_input(tmp_path: Path) -> None:
    async with ssh_world(tmp_path) as world, await world.login() as connection:
        ended = await connection.run(input="echo one\nexit 3\n")
        assert (ended.stdout, ended.exit_status) == ("one\n", 3)
        ended = await connection.run("sh", input="for x in 1 2; do\n echo $x\ndone\n")
        assert ended.stdout == "1\n2\n"


async def test_only_the_locale_and_the_terminal_of_the_caller_reach_the_program(
    tmp_path: Path,
) -> None:
    given = {
        "LANG": "C.UTF-8", "LC_ALL": "C", "COLORTERM": "truecolor", "TERM": "vt52",
        "LD_PRELOAD": "/evil.so", "PATH": "/evil", "LC_": "x", "LANGUAGE": "x",
        "LC_PAPER": "x" * 257,
    }  # fmt: skip
    async with ssh_world(tmp_path) as world, await world.login() as connection:
        ended = await connection.run("env", env=given)
        lines = str(ended.stdout).splitlines()
        assert {"LANG=C.UTF-8", "LC_ALL=C", "COLORTERM=truecolor", "TERM=vt52"} < set(lines)
        assert not any("evil" in each or each.endswith("=x") for each in lines)
        assert not any(each.startswith("LC_PAPER") for each in lines)


async def test_a_terminal_has_its_type_its_size_and_the_changes_of_it(tmp_path: Path) -> None:
    async with ssh_world(tmp_path) as world, await world.login() as connection:
        command = "tty >/dev/null && echo $TERM; stty size; read x; stty size; exit 4"
        process = await connection.create_process(
            command, term_type="xterm-256color", term_size=(100, 40)
        )
        begun = "".join([await process.stdout.readline() for _ in range(2)])
        assert begun.split() == ["xterm-256color", "40", "100"]
        process.change_terminal_size(0, 0)
        process.change_terminal_size(120, 50)
        await asyncio.sleep(0.1)
        process.stdin.write("\n")
        ended = await process.wait()
        assert "50 120" in str(ended.stdout)
        assert ended.exit_status == 4


async def test_a_signal_reaches_the_program_and_its_children(tmp_path: Path) -> None:
    command = "trap 'echo caught; exit 9' USR1; echo ready; while :; do sleep 0.05; done"
    async with ssh_world(tmp_path) as world, await world.login() as connection:
        process = await connection.create_process(command)
        assert await process.stdout.readline() == "ready\n"
        process.send_signal("USR1")
        ended = await process.wait()
        assert (ended.stdout, ended.exit_status) == ("caught\n", 9)
        process = await connection.create_process("sleep 60 & echo ready; wait")
        assert await process.stdout.readline() == "ready\n"
        process.send_signal("KILL")
        assert (await process.wait()).exit_status == 137


async def test_an_unknown_signal_runs_nothing(tmp_path: Path) -> None:
    async with ssh_world(tmp_path) as world, await world.login() as connection:
        process = await connection.create_process("cat")
        process.send_signal("9 1; reboot")
        process.stdin.write_eof()
        assert (await process.wait()).exit_status == 0
        assert len(world.container.executed) == 1


async def test_a_terminal_that_is_gone_hangs_its_programs_up(tmp_path: Path) -> None:
    async with ssh_world(tmp_path) as world:
        async with await world.login() as connection:
            process = await connection.create_process("cat", term_type="xterm")
            await eventually(lambda: len(world.container.executed) == 1)
            process.close()
            await eventually(lambda: len(world.container.executed) == 2)
        *_, signal, session = world.container.executed[1].arguments
        assert signal == "HUP"
        assert session.startswith(f"{SESSION}=")


async def test_an_image_without_sh_says_so(tmp_path: Path) -> None:
    container = LocalContainer(tmp_path, paths=str(tmp_path))
    async with (
        ssh_world(tmp_path, container=container) as world,
        await world.login() as connection,
    ):
        ended = await connection.run("true")
        assert (ended.stderr, ended.exit_status) == (
            "gpuruntime: sh: No such file or directory\n",
            FAILED,
        )


class SeveredExecution:
    """A program whose connection breaks after some output."""

    exit_code: int | None = None

    async def write(self, data: bytes) -> None:
        pass

    async def end_input(self) -> None:
        pass

    async def resize(self, *, columns: int, rows: int) -> None:
        pass

    async def output(self) -> AsyncIterator[Output]:
        yield Output(data=b"partly")
        raise ContainerError("the node is gone")


class SeveredContainer:
    @asynccontextmanager
    async def execute(self, program: Program) -> AsyncIterator[Execution]:
        del program
        yield SeveredExecution()


async def test_a_program_that_is_cut_off_ends_by_a_signal_and_with_words(tmp_path: Path) -> None:
    async with ssh_world(tmp_path) as world, await world.login() as connection:
        world.reach.container = SeveredContainer()
        ended = await connection.run("true")
    assert (ended.stdout, ended.exit_signal and ended.exit_signal[0]) == ("partly", "HUP")
    assert ended.stderr == "gpuruntime: the program was cut off: the node is gone\n"


async def test_a_connection_has_ten_sessions_and_a_unit_as_many_as_its_limit(
    tmp_path: Path,
) -> None:
    limits = attrs.evolve(LIMITS, exec_per_unit=MOST_SESSIONS - 1)
    async with ssh_world(tmp_path, limits=limits) as world, await world.login() as connection:
        running = [await connection.create_process("cat") for _ in range(MOST_SESSIONS)]
        refused = await running[-1].wait()
        assert refused.exit_status == FAILED
        assert f"{MOST_SESSIONS - 1} connections are open" in str(refused.stderr)
        running[-1] = await connection.create_process("cat")
        await running[-1].wait()
        for process in running[:-1]:
            process.stdin.write_eof()
            await process.wait()
        assert (await connection.run("echo again")).stdout == "again\n"


async def test_more_sessions_than_a_connection_has_are_refused(tmp_path: Path) -> None:
    async with ssh_world(tmp_path) as world, await world.login() as connection:
        running = [await connection.create_process("cat") for _ in range(MOST_SESSIONS)]
        with pytest.raises(asyncssh.ChannelOpenError, match="10 sessions are open"):
            await connection.run("true")
        running[0].stdin.write_eof()
        await running[0].wait()
        assert (await connection.run("true")).exit_status == 0


async def test_a_slow_caller_makes_the_program_wait(tmp_path: Path) -> None:
    async with ssh_world(tmp_path) as world, await world.login() as connection:
        command = "head -c 50000000 /dev/zero; echo done >$HOME/done"
        process = await connection.create_process(command, encoding=None, window=65_536)
        assert await process.stdout.read(10) == bytes(10)
        await asyncio.sleep(0.3)
        assert not (tmp_path / "done").exists()
        read = 10
        while data := await process.stdout.read(1_000_000):
            read += len(data)
        assert read == 50_000_000


async def test_agents_x11_and_other_subsystems_are_refused(tmp_path: Path) -> None:
    async with ssh_world(tmp_path) as world, await world.login() as connection:
        with pytest.raises(asyncssh.ChannelOpenError):
            await connection.create_session(asyncssh.SSHClientSession, subsystem="netconf")
        with pytest.raises(asyncssh.Error):
            await connection.create_process(
                "true", x11_forwarding=True, x11_display=":0", x11_auth_path="/dev/null"
            )
        with pytest.raises(asyncssh.ChannelListenError):
            await connection.forward_remote_port("", 0, "localhost", 1)
        with pytest.raises(asyncssh.ChannelListenError):
            await connection.forward_remote_path("/tmp/x", "/tmp/y")
        assert world.container.executed == []
