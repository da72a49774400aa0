"""Cases of exec and port-forward, for any server with a Pod that echoes what its port receives.

kwok runs commands on this machine. It passes no end of input and no exit code on, and it reports
neither a port without a listener nor the far side's end, so it has fewer cases.
"""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from typing import Any, cast

import attrs
import pytest

from gpuruntime.kube.client import Client
from gpuruntime.kube.errors import BadRequestError, NotFoundError, UnavailableError
from gpuruntime.kube.pod_exec import Command, Execution, execute
from gpuruntime.kube.pod_forward import Forwarding, forward
from gpuruntime.models.kubernetes.metadata import Key

CONTAINER = "main"
PORT = 8000
SILENT_PORT = 8001
# Echo each connection, and close after the word "bye".
ECHO = """
import socketserver, sys

class Echo(socketserver.BaseRequestHandler):
    def handle(self):
        while data := self.request.recv(65536):
            self.request.sendall(data)
            if data.endswith(b"bye"):
                return

class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = daemon_threads = True

Server(("127.0.0.1", int(sys.argv[1])), Echo).serve_forever()
"""
BULK = bytes(range(256)) * 40_000
SECONDS = 30.0


@attrs.frozen
class Scene:
    """A server, its Pod that runs, and a Pod that no node has."""

    client: Client
    pod: Key
    waiting: Key

    def run(self, *arguments: str, has_terminal: bool = False) -> Any:
        command = Command(container=CONTAINER, arguments=arguments, has_terminal=has_terminal)
        return execute(self.client, self.pod, command)

    def forward(self, port: int = PORT) -> Any:
        return forward(self.client, self.pod, port)


Case = Callable[[Scene], Awaitable[None]]


async def ended(execution: Execution) -> tuple[int | None, bytes, bytes]:
    """Return exit code, output and errors."""
    output: list[bytes] = []
    errors: list[bytes] = []
    async with asyncio.timeout(SECONDS):
        async for piece in execution.output():
            (errors if piece.is_error else output).append(piece.data)
    return execution.exit_code, b"".join(output), b"".join(errors)


async def taken(forwarding: Forwarding, size: int) -> bytes:
    """Return this number of bytes of the far side, or fewer if it has closed."""
    pieces: list[bytes] = []
    output = cast("Any", forwarding.output())
    async with asyncio.timeout(SECONDS), aclosing(output):
        async for piece in output:
            pieces.append(piece)
            if sum(map(len, pieces)) >= size:
                break
    return b"".join(pieces)


async def output_and_errors_are_two_streams(scene: Scene) -> None:
    async with scene.run("sh", "-c", "echo out; echo err >&2") as execution:
        assert await ended(execution) == (0, b"out\n", b"err\n")


async def arguments_arrive_as_they_were_given(scene: Scene) -> None:
    given = ("a b", "ä&c=d", "$HOME", "", "+%2B", "x" * 10_000)
    async with scene.run("printf", r"%s\n", *given) as execution:
        code, output, _ = await ended(execution)
    assert (code, output.decode().split("\n")) == (0, [*given, ""])


async def input_reaches_the_command(scene: Scene) -> None:
    async with scene.run("head", "-c", "11") as execution:
        await execution.write(b"hello ")
        await execution.write(b"world")
        assert (await ended(execution))[:2] == (0, b"hello world")


async def ten_megabytes_arrive_unchanged(scene: Scene) -> None:
    async with scene.run("sh", "-c", f"head -c {len(BULK)} | sha256sum") as execution:
        await execution.write(BULK)
        _, output, _ = await ended(execution)
    assert output.split()[0].decode() == hashlib.sha256(BULK).hexdigest()


async def ten_megabytes_come_back_unchanged(scene: Scene) -> None:
    async with scene.run("head", "-c", str(len(BULK))) as execution, asyncio.TaskGroup() as tasks:
        tasks.create_task(execution.write(BULK))
        code, output, _ = await ended(execution)
    assert (code, output == BULK) == (0, True)


async def a_terminal_has_the_size_that_it_was_given(scene: Scene) -> None:
    async with scene.run("sh", has_terminal=True) as execution:
        await execution.resize(columns=101, rows=33)
        # A size and input may overtake each other on the way to the terminal.
        await execution.write(b"until stty size | grep '33 101'; do sleep 0.1; done; exit\n")
        _, output, errors = await ended(execution)
    assert (b"33 101" in output, errors) == (True, b"")


async def a_command_in_a_pod_that_is_gone_is_not_found(scene: Scene) -> None:
    command = Command(container=CONTAINER, arguments=("true",))
    with pytest.raises(NotFoundError, match=r"connect pods/exec .*/gone: 404"):
        async with execute(scene.client, Key(scene.pod.namespace, "gone"), command):
            pass


async def an_unknown_container_is_a_bad_request(scene: Scene) -> None:
    command = Command(container="other", arguments=("true",))
    with pytest.raises(BadRequestError, match="container other is not valid for pod"):
        async with execute(scene.client, scene.pod, command):
            pass


async def a_pod_that_no_node_has_is_a_bad_request(scene: Scene) -> None:
    command = Command(container=CONTAINER, arguments=("true",))
    with pytest.raises(BadRequestError, match="does not have a host assigned"):
        async with execute(scene.client, scene.waiting, command):
            pass
    with pytest.raises(BadRequestError, match="does not have a host assigned"):
        async with forward(scene.client, scene.waiting, PORT):
            pass


async def a_port_of_a_pod_that_is_gone_is_not_found(scene: Scene) -> None:
    with pytest.raises(NotFoundError, match=r"connect pods/portforward .*/gone: 404"):
        async with forward(scene.client, Key(scene.pod.namespace, "gone"), PORT):
            pass


async def a_port_is_reached_both_ways(scene: Scene) -> None:
    async with scene.forward() as forwarding:
        await forwarding.write(b"hello")
        assert await taken(forwarding, 5) == b"hello"


async def ten_megabytes_pass_a_port_both_ways(scene: Scene) -> None:
    async with scene.forward() as forwarding, asyncio.TaskGroup() as tasks:
        tasks.create_task(forwarding.write(BULK))
        assert await taken(forwarding, len(BULK)) == BULK


async def connections_to_one_port_do_not_mix(scene: Scene) -> None:
    async with scene.forward() as one, scene.forward() as other:
        await one.write(b"one")
        await other.write(b"other")
        assert await taken(other, 5) == b"other"
        assert await taken(one, 3) == b"one"


async def an_exit_code_is_the_commands(scene: Scene) -> None:
    async with scene.run("sh", "-c", "exit 7") as execution:
        assert (await ended(execution))[0] == 7


async def the_end_of_input_reaches_the_command(scene: Scene) -> None:
    async with scene.run("cat") as execution:
        await execution.write(b"all of it")
        await execution.end_input()
        assert await ended(execution) == (0, b"all of it", b"")


async def a_terminals_exit_code_is_the_commands(scene: Scene) -> None:
    async with scene.run("sh", "-c", "tty; exit 3", has_terminal=True) as execution:
        code, output, _ = await ended(execution)
    assert (code, b"/dev/pts/" in output) == (3, True)


async def a_killed_command_has_the_signal_in_its_exit_code(scene: Scene) -> None:
    async with scene.run("sh", "-c", "kill -9 $$") as execution:
        assert (await ended(execution))[0] == 137


async def a_program_that_is_missing_is_said(scene: Scene) -> None:
    async with scene.run("no-such-program") as execution:
        with pytest.raises(UnavailableError, match=r"no-such-program.*has the program"):
            await ended(execution)


async def a_port_without_a_listener_is_unavailable(scene: Scene) -> None:
    async with scene.forward(SILENT_PORT) as forwarding:
        with pytest.raises(UnavailableError, match=rf"port {SILENT_PORT}: .*listens there"):
            await taken(forwarding, 1)


ANYWHERE: tuple[Case, ...] = (
    output_and_errors_are_two_streams,
    arguments_arrive_as_they_were_given,
    input_reaches_the_command,
    ten_megabytes_arrive_unchanged,
    ten_megabytes_come_back_unchanged,
    a_terminal_has_the_size_that_it_was_given,
    a_command_in_a_pod_that_is_gone_is_not_found,
    an_unknown_container_is_a_bad_request,
    a_pod_that_no_node_has_is_a_bad_request,
    a_port_of_a_pod_that_is_gone_is_not_found,
    a_port_is_reached_both_ways,
    ten_megabytes_pass_a_port_both_ways,
    connections_to_one_port_do_not_mix,
)
WITH_A_KUBELET: tuple[Case, ...] = (
    an_exit_code_is_the_commands,
    the_end_of_input_reaches_the_command,
    a_terminals_exit_code_is_the_commands,
    a_killed_command_has_the_signal_in_its_exit_code,
    a_program_that_is_missing_is_said,
    a_port_without_a_listener_is_unavailable,
)


def name_of(case: Case) -> str:
    return getattr(case, "__name__", "")
