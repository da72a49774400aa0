"""Requests for exec and port-forward: what is refused before a WebSocket opens, and why."""

import asyncio

import aiohttp
import pytest

from gpuruntime.embedded.apiserver.http_listener import serve
from gpuruntime.embedded.apiserver.in_process_transport import InProcessTransport
from gpuruntime.embedded.apiserver.server import Server
from gpuruntime.kube.client import Client
from gpuruntime.kube.errors import UnavailableError
from gpuruntime.kube.pod_exec import Command, execute
from gpuruntime.kube.pod_forward import forward
from gpuruntime.kube.transport import Request, Response
from gpuruntime.models.encoding import codec
from gpuruntime.models.kubernetes.exec_streams import PROTOCOL
from gpuruntime.models.kubernetes.metadata import Key
from tests.proofs.conformance import objects
from tests.rooms.embedded.calls import call, new_server

PODS = "/api/v1/namespaces/default/pods"
BOTH = (PROTOCOL, "v4.channel.k8s.io")
POD = Key("default", "p")


def server_with_a_pod() -> Server:
    """Return a server with a Pod that a node has, though no node runs it."""
    server = new_server()
    call(server, "POST", PODS, objects.pod("p"))
    binding = {"target": {"kind": "Node", "name": "n"}}
    call(server, "POST", f"{PODS}/p/binding", binding)
    return server


def refusal(
    subresource: str,
    *query: tuple[str, str],
    method: str = "GET",
    offered: tuple[str, ...] = BOTH,
) -> tuple[int, str]:
    request = Request(method=method, path=f"{PODS}/p/{subresource}", query=query)
    answer = server_with_a_pod().upgrade(request, offered)
    assert isinstance(answer, Response)
    return answer.status, str(codec.decode_object(answer.body)["message"])


RUN = ("command", "true")
REFUSED = {
    "no command": (refusal("exec"), 400, "you must specify at least one command"),
    "an unknown container": (
        refusal("exec", RUN, ("container", "x")),
        400,
        "container x is not valid for pod p",
    ),
    "another protocol": (refusal("exec", RUN, offered=("v4.channel.k8s.io",)), 400, PROTOCOL),
    "no protocol": (refusal("exec", RUN, offered=()), 400, "Upgrade request required"),
    "a deletion": (refusal("exec", RUN, method="DELETE"), 405, "does not allow this method"),
    "kubectl port-forward, which names its ports later": (
        refusal("portforward", offered=("SPDY/3.1+portforward.k8s.io",)),
        400,
        "over a WebSocket with v4.channel.k8s.io",
    ),
    "no port": (refusal("portforward"), 400, "missing: name one from 1 to 65535"),
    "two ports": (
        refusal("portforward", ("ports", "1"), ("ports", "2")),
        400,
        "1, 2: name one from 1 to 65535",
    ),
    "port 0": (refusal("portforward", ("ports", "0")), 400, "0: name one"),
    "port 65536": (refusal("portforward", ("ports", "65536")), 400, "65536: name one"),
    "a port of many digits": (refusal("portforward", ("ports", "9" * 5000)), 400, "name one"),
    "a port that is no number": (refusal("portforward", ("ports", "http")), 400, "http: name"),
}


@pytest.mark.parametrize(("seen", "status", "words"), REFUSED.values(), ids=REFUSED)
def test_a_faulty_request_is_refused_in_words(
    seen: tuple[int, str], status: int, words: str
) -> None:
    assert (seen[0], words in seen[1]) == (status, True), seen


@pytest.mark.parametrize("query", [(RUN, ("ports", "80")), ()], ids=["in full", "without query"])
@pytest.mark.parametrize("subresource", ["exec", "portforward"])
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_request_without_an_upgrade_names_the_protocol(
    method: str, subresource: str, query: tuple[tuple[str, str], ...]
) -> None:
    """kubectl falls back to POST, and prints this."""
    request = Request(method=method, path=f"{PODS}/p/{subresource}", query=query)
    answer = server_with_a_pod().handle(request)
    assert answer.status == 400
    assert b"Upgrade request required" in answer.body


async def ended(client: Client) -> None:
    async with execute(client, POD, Command(container="main", arguments=("true",))) as execution:
        async for _ in execution.output():
            pass


async def closed(client: Client) -> None:
    async with forward(client, POD, 80) as forwarding:
        async for _ in forwarding.output():
            pass


async def test_without_nodes_nothing_runs_and_nothing_listens() -> None:
    client = Client(InProcessTransport(server_with_a_pod()))
    with pytest.raises(UnavailableError, match="container not found"):
        await ended(client)
    with pytest.raises(UnavailableError, match="pod not found"):
        await closed(client)


async def test_an_error_inside_the_block_arrives_as_it_is() -> None:
    client = Client(InProcessTransport(server_with_a_pod()))
    with pytest.raises(KeyError):
        async with forward(client, POD, 80):
            raise KeyError
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01), forward(client, POD, 80):
            await asyncio.Event().wait()


async def test_a_web_page_opens_no_websocket() -> None:
    """A browser sends Origin with every WebSocket, also where it lets a page open one."""
    async with serve(server_with_a_pod()) as url, aiohttp.ClientSession() as session:
        path = f"{url}{PODS}/p/exec?command=true"
        for origin in ("https://example.com", url, "null"):
            with pytest.raises(aiohttp.WSServerHandshakeError) as caught:
                await session.ws_connect(path, protocols=(PROTOCOL,), origin=origin)
            assert caught.value.status == 403
        async with session.ws_connect(path, protocols=(PROTOCOL,)) as web_socket:
            assert web_socket.protocol == PROTOCOL


@pytest.mark.parametrize("sent", ["text", b"\x09x", b"", b"\x04{", b"\xff\x07"])
async def test_a_message_that_no_client_sends_breaks_nothing(sent: str | bytes) -> None:
    async with serve(server_with_a_pod()) as url, aiohttp.ClientSession() as session:
        path = f"{url}{PODS}/p/portforward?ports=80"
        async with session.ws_connect(path, protocols=("v4.channel.k8s.io",)) as web_socket:
            await (
                web_socket.send_str(sent) if isinstance(sent, str) else web_socket.send_bytes(sent)
            )
            kinds = [message.type async for message in web_socket]
    assert len(kinds) == 3
