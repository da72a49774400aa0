"""A gateway with every handler, the addresses that lead into a unit, and what they answer."""

import json
from collections.abc import Iterator, Mapping
from types import SimpleNamespace
from typing import Final

import attrs
from aiohttp import hdrs, web
from aiohttp.test_utils import make_mocked_request

from gpuruntime.gateway.app import Gateway, Handlers
from gpuruntime.gateway.containers.exec_session import ExecSessions
from gpuruntime.gateway.containers.forward_session import ForwardSessions
from gpuruntime.gateway.containers.port_dialer import PortDialer
from gpuruntime.gateway.containers.session import SessionTimes
from gpuruntime.gateway.containers.terminal_page import TerminalAdmission, TerminalPage
from gpuruntime.gateway.containers.verbs import ExecVerb, ForwardVerb
from gpuruntime.gateway.ssh.pod_reach import PodReach
from gpuruntime.gateway.ssh.server import SshContext, SshServer
from gpuruntime.gateway.ssh.web_socket import SshVerb
from gpuruntime.models.kinds.units import GPUUnit
from gpuruntime.models.requests.tickets import Use
from gpuruntime.tickets.addresses import PROGRAMS, TERMINAL, slug_of
from tests.rooms.gateway.service import DOMAIN, World
from tests.rooms.gateway.ssh.ssh_world import HOST_KEY, OPTIONS
from tests.rooms.gateway.visitors import PORTS

TIMES: Final = SessionTimes(idle_seconds=60.0)
UNDECLARED: Final = 5000
# A connection whose client never leaves.
_CONNECTED: Final = SimpleNamespace(is_closing=lambda: False, get_extra_info=lambda *_: None)
_REQUEST: Final = make_mocked_request(hdrs.METH_GET, "/", transport=_CONNECTED)


@attrs.frozen(kw_only=True)
class Place:
    """An address that leads into a unit by one use; a browser's session counts at an origin."""

    host: str
    path: str
    use: Use
    port: int | None = None
    is_origin: bool = False


def places_of(unit: GPUUnit) -> Iterator[Place]:
    """Yield every address of the unit, at a gateway that serves plain hosts, too."""
    name, slug = unit.metadata.name, slug_of(unit.metadata.name, unit.metadata.uid)
    programs = f"{PROGRAMS}.{DOMAIN}"
    for port in (each.port for each in PORTS):
        for label in (slug, name):
            host = f"{port}--{label}.{DOMAIN}"
            yield Place(host=host, path="/a", use=Use.HTTP, port=port, is_origin=True)
        path = f"/units/{name}/ports/{port}/a"
        yield Place(host=programs, path=path, use=Use.HTTP, port=port)
    for port in (*(each.port for each in PORTS), UNDECLARED):
        path = f"/units/{name}/forward?port={port}"
        yield Place(host=programs, path=path, use=Use.FORWARD, port=port)
    yield Place(host=programs, path=f"/units/{name}/exec", use=Use.EXEC)
    yield Place(host=programs, path=f"/units/{name}/ssh", use=Use.SSH)
    yield Place(host=f"{TERMINAL}--{slug}.{DOMAIN}", path="/exec", use=Use.EXEC, is_origin=True)


@attrs.frozen(kw_only=True)
class Answer:
    """An answer, with every byte that a caller could tell two answers apart by."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes

    @property
    def code(self) -> str:
        return str(json.loads(self.body)["error"]["code"])

    @property
    def reason(self) -> str:
        return str(json.loads(self.body)["error"].get("reason", ""))


def whole_gateway(world: World) -> Gateway:
    """Return a gateway with every verb and the terminal."""
    context = world.context
    dialer = PortDialer(context.client, context.upstreams.addresses.of, connect_seconds=1.0)
    forwards = ForwardSessions(dialer, context.connections, TIMES)
    sessions = ExecSessions(context.client, context.connections, TIMES)
    ssh = SshContext(
        gate=context.gate,
        waker=context.waker,
        connections=context.connections,
        reach_of=lambda unit: PodReach(context.client, dialer, unit),
        meter=context.meter,
        now=lambda: world.now,
    )
    admission = TerminalAdmission(
        context.waker, context.address, has_plain_hosts=context.options.has_plain_hosts
    )
    verbs = {
        "exec": ExecVerb(context.waker, sessions).serve,
        "forward": ForwardVerb(context.waker, forwards, has_exec=True).serve,
        "ssh": SshVerb(
            context.waker, context.connections, SshServer(ssh, OPTIONS, HOST_KEY)
        ).serve,
    }
    return Gateway(
        context, Handlers(verbs=verbs, terminal=TerminalPage(sessions, admission).serve)
    )


async def answer(gateway: Gateway, host: str, path: str, headers: Mapping[str, str]) -> Answer:
    """Return the answer to a GET that opens no WebSocket, without a socket."""
    request = _REQUEST.clone(rel_url=path, headers={hdrs.HOST: host, **headers})
    served = await gateway.serve(request)
    assert isinstance(served, web.Response), f"{path} is answered bit by bit"
    body = served.body or b""
    assert isinstance(body, bytes)
    return Answer(status=served.status, headers=tuple(sorted(served.headers.items())), body=body)
