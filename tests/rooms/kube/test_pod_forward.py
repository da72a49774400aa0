"""Connections to ports over a scripted WebSocket."""

import pytest

from gpuruntime.kube.client import Client
from gpuruntime.kube.errors import (
    BadRequestError,
    KubeError,
    MalformedAnswerError,
    NotFoundError,
    UnavailableError,
)
from gpuruntime.kube.pod_forward import forward
from gpuruntime.models.kubernetes.metadata import Key
from tests.rooms.kube.sockets import SocketTransport
from tests.rooms.kube.things import failure

POD = Key("lab", "anvil")
PORT = 8000
HEADS = (b"\x00\x40\x1f", b"\x01\x40\x1f")


async def served(*messages: bytes) -> bytes:
    transport = SocketTransport()
    async with forward(Client(transport), POD, PORT) as forwarding:
        await transport.serve(*messages)
        return b"".join([piece async for piece in forwarding.output()])


async def test_the_request_names_pod_and_port() -> None:
    transport = SocketTransport()
    async with forward(Client(transport), POD, PORT):
        pass
    ((request, protocol),) = transport.opened
    assert request.path == "/api/v1/namespaces/lab/pods/anvil/portforward"
    assert (request.query, protocol) == ((("ports", "8000"),), "v4.channel.k8s.io")


async def test_bytes_are_sent_in_pieces() -> None:
    transport = SocketTransport()
    async with forward(Client(transport), POD, PORT) as forwarding:
        await forwarding.write(b"a" * 40_000)
    assert [(len(each), each[:1]) for each in await transport.sent()] == [
        (32_769, b"\x00"),
        (7_233, b"\x00"),
    ]


ANSWERS = {
    "heads only": (HEADS, b""),
    "data": ((*HEADS, b"\x00hello ", b"\x00world"), b"hello world"),
    "data before the head of the errors": ((HEADS[0], b"\x00a", HEADS[1], b"\x00b"), b"ab"),
    "data that looks like a head": ((*HEADS, HEADS[0]), HEADS[0][1:]),
    "empty messages": ((b"\x00", b"\x01", b"", *HEADS, b"\x00", b"\x00a"), b"a"),
    "nothing at all": ((), b""),
}


@pytest.mark.parametrize(("messages", "received"), ANSWERS.values(), ids=ANSWERS)
async def test_what_the_port_sends_is_received(
    messages: tuple[bytes, ...], received: bytes
) -> None:
    assert await served(*messages) == received


FAULTS: dict[str, tuple[tuple[bytes, ...], type[KubeError], str]] = {
    "nothing listens": (
        (*HEADS, b"\x01dial tcp4:\n connection refused"),
        UnavailableError,
        r"lab/anvil: port 8000: dial tcp4: connection refused \(check that the Pod runs",
    ),
    "another port": ((b"\x00\x41\x1f",), MalformedAnswerError, "channel 0 of port 8000 begins"),
    "data without a head": ((b"\x00hello",), MalformedAnswerError, "lab/anvil: channel 0"),
    "an unknown channel": ((*HEADS, b"\x02hello"), MalformedAnswerError, "channel 2"),
}


@pytest.mark.parametrize(("messages", "error", "words"), FAULTS.values(), ids=FAULTS)
async def test_a_fault_is_an_error_that_names_the_pod(
    messages: tuple[bytes, ...], error: type[KubeError], words: str
) -> None:
    with pytest.raises(error, match=words):
        await served(*messages)


@pytest.mark.parametrize("port", [0, -1, 65_536])
async def test_a_number_that_is_no_port_is_a_bad_request(port: int) -> None:
    transport = SocketTransport()
    with pytest.raises(BadRequestError, match=f"lab/anvil: {port} is no port: use 1 to 65535"):
        async with forward(Client(transport), POD, port):
            pass
    assert transport.opened == []


async def test_a_refusal_is_the_servers_error() -> None:
    refusal = failure(404, "NotFound", 'pods "anvil" not found')
    with pytest.raises(NotFoundError, match="connect pods/portforward lab/anvil: 404"):
        async with forward(Client(SocketTransport(refusal)), POD, PORT):
            pass
