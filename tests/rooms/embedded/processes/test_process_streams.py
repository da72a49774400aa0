"""Commands and connections to Pods that run as processes, and words for those that do not."""

import asyncio
import os
import re
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from gpuruntime.embedded.kinds.pod_objects import PODS, Pod
from gpuruntime.embedded.processes.programs import Program
from gpuruntime.kube.errors import BadRequestError, UnavailableError
from gpuruntime.kube.pod_exec import Command, Execution, execute
from gpuruntime.kube.pod_forward import forward
from gpuruntime.models.kubernetes.exec_streams import PROTOCOL, Channel
from gpuruntime.models.kubernetes.metadata import Key
from tests.eventually import eventually
from tests.proofs.conformance.stream_cases import ECHO
from tests.rooms.embedded.world import World, running_cluster

IMAGE = "example/echo:1"
PORT = 8000
SIDE_PORT = 8001
NAME = "echo"
MOUNT = "/data"


def container(name: str, port: int) -> dict[str, Any]:
    return {
        "name": name,
        "image": IMAGE,
        "command": ["python", "-c", ECHO, str(port)],
        "ports": [{"containerPort": port}],
        "readinessProbe": {"tcpSocket": {"port": port}},
        "env": [{"name": "COLOUR", "value": "green"}],
        "volumeMounts": [{"name": "data", "mountPath": MOUNT}],
        "workingDir": "/usr",
    }


@asynccontextmanager
async def echoing() -> AsyncIterator[World]:
    """Run a cluster with a process Pod that has a sidecar, and a simulated Pod."""
    python = Program(name="python", path=sys.executable)
    async with running_cluster(programs={IMAGE: python, "python": python}) as world:
        sidecar = {**container("side", SIDE_PORT), "restartPolicy": "Always"}
        spec = {
            "containers": [container("main", PORT)],
            "initContainers": [sidecar],
            "volumes": [{"name": "data", "emptyDir": {}}],
            "terminationGracePeriodSeconds": 0,
        }
        await world.make(PODS, NAME, spec=spec)
        await world.pod("simulated")
        await world.until(PODS, NAME, is_ready)
        yield world


def is_ready(pod: Pod) -> bool:
    return pod.is_ready


def run(world: World, *arguments: str, pod: str = NAME, name: str = "main", **more: Any) -> Any:
    command = Command(container=name, arguments=arguments, **more)
    return execute(world.client, Key("default", pod), command)


async def ended(execution: Execution) -> tuple[int | None, str]:
    output = [each.data async for each in execution.output()]
    return execution.exit_code, b"".join(output).decode()


async def test_a_command_has_environment_folder_and_mounts_of_its_container() -> None:
    async with echoing() as world:
        script = f"echo $COLOUR; pwd; echo kept > {MOUNT}/a"
        async with run(world, "sh", "-c", script) as execution:
            assert await ended(execution) == (0, "green\n/usr\n")
        async with run(world, "cat", f"{MOUNT}/a", name="side") as execution:
            assert await ended(execution) == (0, "kept\n")


async def test_python_is_the_interpreter_of_the_container() -> None:
    async with (
        echoing() as world,
        run(world, "python", "-c", "import sys; print(sys.executable)") as execution,
    ):
        assert await ended(execution) == (0, f"{sys.executable}\n")


@pytest.mark.parametrize("terminal", [False, True], ids=["over pipes", "on a terminal"])
async def test_a_command_with_nul_is_refused_in_words(terminal: bool) -> None:
    """Our client refuses it before, and others may send it."""
    query = (("command", "echo"), ("command", "a\0b"), ("tty", str(terminal).lower()))
    pod = Key("default", NAME)
    async with echoing() as world:
        async with world.client.socket(PODS, pod, "exec", query, protocol=PROTOCOL) as socket:
            message = await socket.receive()
            while message and message[:1] != bytes((Channel.STATUS,)):
                message = await socket.receive()
        assert message
        assert b"cannot be given to a process: embedded null" in message
        async with run(world, "echo", "still here") as execution:
            assert await ended(execution) == (0, "still here\n")


async def test_ports_of_every_container_are_reached() -> None:
    async with echoing() as world:
        for port in (PORT, SIDE_PORT):
            async with forward(world.client, Key("default", NAME), port) as forwarding:
                await forwarding.write(b"bye")
                assert [piece async for piece in forwarding.output()] == [b"bye"]


async def test_a_port_that_no_container_declares_is_refused_with_those_that_are() -> None:
    """A process shares the ports of this machine, so no other port is the Pod's."""
    async with echoing() as world, forward(world.client, Key("default", NAME), 22) as forwarding:
        with pytest.raises(UnavailableError, match="those that do: 8000, 8001"):
            async for _ in forwarding.output():
                pass


async def test_a_simulated_pod_says_that_it_is_simulated() -> None:
    async with echoing() as world:
        await world.until(PODS, "simulated", is_ready)
        async with run(world, "sh", pod="simulated", name="c") as execution:
            with pytest.raises(
                BadRequestError, match="pod default/simulated is simulated: it has"
            ):
                await ended(execution)
        async with forward(world.client, Key("default", "simulated"), 80) as forwarding:
            with pytest.raises(UnavailableError, match="pod default/simulated is simulated"):
                async for _ in forwarding.output():
                    pass


async def test_a_command_ends_with_the_process_of_its_container() -> None:
    async with echoing() as world, run(world, "sleep", "1000") as execution:
        (number,) = re.findall(r"(\d+) \(main\)", (await world.get(PODS, NAME)).status.message)
        os.kill(int(number), signal.SIGTERM)
        assert await ended(execution) == (128 + signal.SIGKILL, "")
        await world.until(PODS, NAME, lambda pod: pod.restarts == 1 and pod.is_ready)


async def test_a_command_ends_with_its_pod() -> None:
    async with echoing() as world:
        async with run(world, "sleep", "1000") as execution:
            await world.delete(PODS, NAME)
            assert await ended(execution) == (128 + signal.SIGKILL, "")
        await world.until_gone(PODS, NAME)


async def test_a_pod_that_has_ended_runs_no_command() -> None:
    async with echoing() as world:
        container = {"name": "main", "image": IMAGE, "command": ["python", "-c", "pass"]}
        spec = {"containers": [container], "restartPolicy": "Never"}
        await world.make(PODS, "over", spec=spec)
        await world.until(PODS, "over", lambda pod: pod.is_finished)
        async with run(world, "true", pod="over") as execution:
            with pytest.raises(UnavailableError, match="main of pod default/over does not run"):
                await ended(execution)


async def test_a_command_whose_caller_leaves_is_killed(tmp_path: Path) -> None:
    async with echoing() as world:
        number = tmp_path / "pid"
        async with run(world, "sh", "-c", f"echo $$ > {number}; exec sleep 1000"):
            await eventually(lambda: number.exists() and number.read_text().strip())
        pid = int(number.read_text())
        await eventually(lambda: not Path(f"/proc/{pid}").exists())


async def test_a_terminal_ignores_sizes_that_no_terminal_has() -> None:
    async with echoing() as world, run(world, "sh", has_terminal=True) as execution:
        await execution.resize(columns=80, rows=24)
        for size in (b'{"Width":0,"Height":9}', b'{"Width":1000000,"Height":9}', b"[]", b"{"):
            await execution._socket.send(b"\x04" + size)
        await execution.write(b"stty size; exit 5\n")
        code, output = await ended(execution)
    assert (code, "24 80" in output) == (5, True)


async def test_the_end_of_input_ends_a_shell_on_a_terminal() -> None:
    async with echoing() as world, run(world, "sh", has_terminal=True) as execution:
        await execution.write(b"exit_code=9; (exit 9)\n")
        await execution.end_input()
        assert (await ended(execution))[0] == 9


async def test_an_interrupt_on_a_terminal_reaches_the_command() -> None:
    async with (
        echoing() as world,
        run(world, "sh", "-c", "echo up; exec sleep 1000", has_terminal=True) as execution,
    ):
        output = execution.output()
        assert b"up" in (await anext(output)).data
        await execution.write(b"\x03")
        async for _ in output:
            pass
    assert execution.exit_code == 128 + signal.SIGINT


async def test_input_that_a_command_does_not_take_waits_and_breaks_nothing() -> None:
    async with (
        echoing() as world,
        run(world, "sh", "-c", "exec <&-; sleep 0.2; echo done") as execution,
        asyncio.TaskGroup() as tasks,
    ):
        sending = tasks.create_task(execution.write(bytes(1_000_000)))
        assert await ended(execution) == (0, "done\n")
        sending.cancel()


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


async def test_no_files_stay_open() -> None:
    async with echoing() as world:
        async with run(world, "true") as execution:
            await ended(execution)
        before = open_files()
        for has_terminal in (False, True):
            for _ in range(5):
                async with run(world, "true", has_terminal=has_terminal) as execution:
                    await ended(execution)
        await eventually(lambda: open_files() <= before)
