"""Commands over a scripted WebSocket: what is sent, what comes back, and every fault named."""

import asyncio
import json
from typing import Any

import pytest

from gpuruntime.kube.client import Client
from gpuruntime.kube.errors import (
    BadRequestError,
    KubeError,
    MalformedAnswerError,
    NotFoundError,
    UnavailableError,
    UnreachableError,
)
from gpuruntime.kube.pod_exec import LARGEST_COMMAND, MOST_ARGUMENTS, Command, Execution, execute
from gpuruntime.models.kubernetes.exec_streams import LAST_OUTPUT_SECONDS
from gpuruntime.models.kubernetes.metadata import Key
from tests.rooms.kube.sockets import SocketTransport
from tests.rooms.kube.things import failure

POD = Key("lab", "anvil")
SUCCESS = b'\x03{"metadata":{},"status":"Success"}'


def exited(code: str) -> bytes:
    causes = [{"reason": "ExitCode", "message": code}]
    return ended(status="Failure", reason="NonZeroExitCode", details={"causes": causes})


def ended(**members: Any) -> bytes:
    return b"\x03" + json.dumps(members).encode()


def command(*arguments: str, **members: Any) -> Command:
    return Command(container="runtime", arguments=arguments or ("true",), **members)


async def output_of(execution: Execution) -> list[tuple[bytes, bool]]:
    return [(each.data, each.is_error) async for each in execution.output()]


async def served(*messages: bytes) -> tuple[int | None, list[tuple[bytes, bool]]]:
    """Return the exit code and the output of a command that is answered with these messages."""
    transport = SocketTransport()
    async with execute(Client(transport), POD, command()) as execution:
        await transport.serve(*messages)
        output = await output_of(execution)
    return execution.exit_code, output


async def test_the_request_names_container_command_and_streams() -> None:
    transport = SocketTransport()
    asked = command("sh", "-c", "a b&c")
    async with execute(Client(transport), POD, asked):
        pass
    ((request, protocol),) = transport.opened
    assert (request.method, request.path) == ("GET", "/api/v1/namespaces/lab/pods/anvil/exec")
    assert protocol == "v5.channel.k8s.io"
    assert request.query == (
        ("container", "runtime"),
        ("command", "sh"),
        ("command", "-c"),
        ("command", "a b&c"),
        ("stdin", "true"),
        ("stdout", "true"),
        ("stderr", "true"),
        ("tty", "false"),
    )


async def test_a_terminal_has_no_errors_of_its_own() -> None:
    transport = SocketTransport()
    async with execute(Client(transport), POD, command(has_terminal=True, has_input=False)):
        pass
    query = dict(transport.opened[0][0].query)
    assert (query["tty"], query["stderr"], query["stdin"]) == ("true", "false", "false")


FAULTY = {
    "no argument": ((), "the command is empty: name a program"),
    "65 arguments": (("x",) * 65, "has 65 arguments and may have 64: send a script"),
    "128 KiB": (("x" * 131_072,), "has 131072 bytes and may have 65536: send a script"),
    "128 KiB in all": (("xx" * 2048,) * 32, "has 131072 bytes"),
    "more bytes than characters": (("ä" * LARGEST_COMMAND,), "has 131072 bytes"),
    "a NUL": (("sh", "a\0b"), "contains NUL"),
    "what is no UTF-8": (("sh", "\udcff"), "no UTF-8: send it through the input"),
}


@pytest.mark.parametrize(("arguments", "words"), FAULTY.values(), ids=FAULTY)
async def test_a_command_that_cannot_run_is_a_bad_request_and_is_not_sent(
    arguments: tuple[str, ...], words: str
) -> None:
    transport = SocketTransport()
    asked = Command(container="runtime", arguments=arguments)
    with pytest.raises(BadRequestError, match=f"connect pods/exec lab/anvil: .*{words}"):
        async with execute(Client(transport), POD, asked):
            pass
    assert transport.opened == []


async def test_the_longest_command_is_sent() -> None:
    transport = SocketTransport()
    arguments = ("x" * (LARGEST_COMMAND // MOST_ARGUMENTS),) * MOST_ARGUMENTS
    async with execute(Client(transport), POD, command(*arguments)):
        pass
    assert len(transport.opened) == 1


async def test_input_is_sent_in_pieces_and_its_end_is_told() -> None:
    transport = SocketTransport()
    async with execute(Client(transport), POD, command()) as execution:
        await execution.write(b"a" * 40_000)
        await execution.write(b"")
        await execution.end_input()
    first, second, end = await transport.sent()
    assert (len(first), first[:2]) == (32_769, b"\x00a")
    assert (len(second), second[:2], end) == (7_233, b"\x00a", b"\xff\x00")


@pytest.mark.parametrize(
    ("columns", "rows"), [(0, 24), (80, 0), (10**6, 24), (80, 10**6), (-1, 24), (65_536, 1)]
)
async def test_a_size_that_no_terminal_has_is_not_sent(columns: int, rows: int) -> None:
    transport = SocketTransport()
    async with execute(Client(transport), POD, command()) as execution:
        with pytest.raises(BadRequestError, match=r"lab/anvil: no terminal has .*: use 1 to 655"):
            await execution.resize(columns=columns, rows=rows)
    assert await transport.sent() == []


async def test_a_size_is_told_as_the_kubelet_reads_it() -> None:
    transport = SocketTransport()
    async with execute(Client(transport), POD, command()) as execution:
        await execution.resize(columns=65_535, rows=1)
    assert await transport.sent() == [b'\x04{"Width":65535,"Height":1}']


ENDINGS = {
    "success": (SUCCESS, 0),
    "an exit code": (exited("7"), 7),
    "a signal": (exited("137"), 137),
}


@pytest.mark.parametrize(("ending", "code"), ENDINGS.values(), ids=ENDINGS)
async def test_the_status_has_the_exit_code(ending: bytes, code: int) -> None:
    assert await served(ending) == (code, [])


async def test_output_and_errors_keep_their_order() -> None:
    messages = (b"\x01", b"\x02", b"\x03", b"", b"\x01a", b"\x02b", b"\x01c", SUCCESS)
    assert await served(*messages) == (0, [(b"a", False), (b"b", True), (b"c", False)])


async def test_output_after_the_status_still_counts() -> None:
    assert await served(SUCCESS, b"\x01late") == (0, [(b"late", False)])


FAULTS: dict[str, tuple[tuple[bytes, ...], type[KubeError], str]] = {
    "the server closes without a status": (
        (b"\x01a",),
        UnreachableError,
        "lab/anvil: it was cut off before it told an exit code",
    ),
    "the kubelet cannot run it": (
        (ended(status="Failure", code=500, reason="InternalError", message="no such container"),),
        UnavailableError,
        r"lab/anvil: 500 InternalError: no such container \(check that the container runs",
    ),
    "a forbidden command": (
        (ended(status="Failure", code=400, reason="BadRequest", message="no shell here"),),
        BadRequestError,
        "no shell here",
    ),
    "a failure without an exit code": (
        (ended(status="Failure"),),
        BadRequestError,
        "check that the container runs",
    ),
    "an exit code that is no number": ((exited("-x"),), BadRequestError, "check that"),
    "a status that is no JSON": ((b"\x03{",), MalformedAnswerError, "lab/anvil: the exit status"),
    "a status of another shape": ((b"\x03[]",), MalformedAnswerError, "the exit status"),
    "an unknown channel": ((b"\x09x",), MalformedAnswerError, "lab/anvil: unknown channel 9"),
}


@pytest.mark.parametrize(("messages", "error", "words"), FAULTS.values(), ids=FAULTS)
async def test_every_other_end_is_an_error_that_names_the_pod(
    messages: tuple[bytes, ...], error: type[KubeError], words: str
) -> None:
    with pytest.raises(error, match=words):
        await served(*messages)


@pytest.mark.looptime
async def test_a_server_that_never_closes_after_the_status_is_left() -> None:
    transport = SocketTransport()
    loop = asyncio.get_running_loop()
    async with execute(Client(transport), POD, command()) as execution:
        await transport.server.send(SUCCESS)
        await output_of(execution)
    assert (execution.exit_code, loop.time()) == (0, LAST_OUTPUT_SECONDS)


@pytest.mark.looptime
async def test_a_silent_command_is_waited_for() -> None:
    transport = SocketTransport()
    async with execute(Client(transport), POD, command()) as execution:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(86_400):
                await output_of(execution)
    assert execution.exit_code is None


async def test_a_refusal_is_the_servers_error() -> None:
    refusal = failure(404, "NotFound", 'pods "anvil" not found')
    with pytest.raises(NotFoundError, match="connect pods/exec lab/anvil: 404 NotFound"):
        async with execute(Client(SocketTransport(refusal)), POD, command()):
            pass


async def test_a_server_that_cannot_serve_has_run_nothing() -> None:
    with pytest.raises(UnavailableError):
        async with execute(Client(SocketTransport(failure(500, ""))), POD, command()):
            pass


@pytest.mark.parametrize("name", ["", "..", "a/b", "a%2Fb"])
async def test_a_name_that_would_address_something_else_is_a_bad_request(name: str) -> None:
    transport = SocketTransport()
    with pytest.raises(BadRequestError):
        async with execute(Client(transport), Key("lab", name), command()):
            pass
    assert transport.opened == []
