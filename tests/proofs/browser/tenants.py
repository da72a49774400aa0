"""Units of two tenants behind the gateway of dev, each with a site that attacks its siblings."""

import asyncio
import base64
import io
import ssl
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from importlib.resources import files
from pathlib import Path

import attrs
import yaml

from gpuruntime.client import Client, NewStock, NewUnit, Options, connect
from gpuruntime.client.errors import ClientError
from gpuruntime.embedded.processes.port_plan import free_port
from gpuruntime.embedded.processes.programs import Program
from gpuruntime.models.kinds.templates import Port, Template
from gpuruntime.models.requests.tickets import CreateTicket, Use
from gpuruntime.settings.gateway import GatewaySettings
from gpuruntime.settings.schema import Settings
from gpuruntime.settings.values import Address
from tests.eventually import eventually
from tests.proofs.browser.chromium import PATIENCE_SECONDS, Browser, Tab
from tests.rooms.kube.servers import Authority
from tests.rooms.roles.dev.test_dev import local_settings, printed, running

# Hosts below it are siblings of one site, so that browsers send SameSite cookies between them.
DOMAIN = "units.example.com"
SIBLINGS = (
    f"--host-resolver-rules=MAP *.{DOMAIN} 127.0.0.1, MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
    "--ignore-certificate-errors",
)
IMAGE = "example/python:1"
PORT = 8080
SOURCE = (files("tests.proofs.browser") / "unit_site.py").read_text()


@attrs.frozen
class Tenants:
    client: Client
    browser: Browser

    async def add(self, name: str, tenant: str) -> None:
        """Create the unit of a tenant, and wait until its site answers."""
        template = Template(
            command=("python", "-c", SOURCE, str(PORT), name),
            ports=(Port(name="http", port=PORT),),
        )
        unit = NewUnit(name=name, specName="s", image=IMAGE, tenant=tenant, template=template)
        await eventually(
            lambda: self.client.units.create(unit),
            despite=ClientError,
            within_seconds=PATIENCE_SECONDS,
            poll_seconds=0.1,
        )
        await eventually(
            lambda: self.client.units.get(name),
            lambda reply: reply.data.phase == "Ready",
            within_seconds=PATIENCE_SECONDS,
            poll_seconds=0.1,
        )

    async def url(self, name: str) -> str:
        """Return a URL at which the browser enters the unit by a ticket of its own."""
        ticket = CreateTicket(uses=(Use.HTTP,), port="http")
        return str((await self.client.units.ticket(name, ticket)).data.url)

    async def visit(self, name: str) -> Tab:
        """Return a tab before the unit's page."""
        tab = await self.browser.open(await self.url(name))
        await tab.until(f"document.title === '{name}'")
        return tab


async def seen_by(tab: Tab) -> list[dict[str, str]]:
    """Return the requests that the site of the tab's page received, without this one."""
    seen: list[dict[str, str]] = await tab.evaluate("fetch('/seen').then(a => a.json())")
    return seen


def python() -> dict[str, Program]:
    here = Program(name="python", path=sys.executable)
    return {IMAGE: here, "python": here}


@asynccontextmanager
async def on_siblings(browser: Browser, folder: Path) -> AsyncIterator[Tenants]:
    """Run dev with a gateway of HTTPS, whose units are siblings below one domain."""
    authority = Authority(folder)
    gateway_port = free_port()
    async with AsyncExitStack() as opened:
        context = authority.server_context(f"*.{DOMAIN}")
        port = await opened.enter_async_context(_encrypting(context, gateway_port))
        gateway = GatewaySettings(
            listen=Address("127.0.0.1", gateway_port),
            activityListen=Address("127.0.0.1", 0),
            publicURL=f"https://*.{DOMAIN}:{port}",
            keyFile=_key_file(folder),
        )
        settings = attrs.evolve(local_settings(), gateway=gateway)
        yield await opened.enter_async_context(_dev(browser, settings))


@asynccontextmanager
async def on_localhost(browser: Browser) -> AsyncIterator[Tenants]:
    """Run dev as it is, whose units have plain hosts below localhost as well."""
    async with _dev(browser, local_settings()) as tenants:
        yield tenants


@asynccontextmanager
async def _dev(browser: Browser, settings: Settings) -> AsyncIterator[Tenants]:
    output = io.StringIO()
    async with (
        running(output, programs=python(), settings=settings),
        connect(Options(server=printed(output, "api"))) as client,
    ):
        await client.stock.seed(NewStock(specName="s", replicas=3))
        yield Tenants(client, browser)


def _key_file(folder: Path) -> str:
    path = folder / "tickets.yaml"
    secret = base64.b64encode(bytes(32)).decode()
    path.write_text(yaml.safe_dump({"keys": [{"id": "test", "secret": secret}]}))
    return str(path)


@asynccontextmanager
async def _encrypting(context: ssl.SSLContext, port: int) -> AsyncIterator[int]:
    """Pass connections of HTTPS on to a port, as an ingress does. Yield the port of HTTPS."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers = [writer]
        try:
            back, forth = await asyncio.open_connection("127.0.0.1", port)
            writers.append(forth)
            async with asyncio.TaskGroup() as pumps:
                pumps.create_task(_pump(reader, forth), name="pump forth")
                pumps.create_task(_pump(back, writer), name="pump back")
        except OSError:
            pass  # the gateway has ended, and so does the connection
        finally:
            for each in writers:
                await _cut(each)

    async with asyncio.TaskGroup() as tasks:
        serving = set()

        def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            serving.add(tasks.create_task(serve(reader, writer), name="connection"))

        async with await asyncio.start_server(accept, "127.0.0.1", 0, ssl=context) as server:
            yield server.sockets[0].getsockname()[1]
            for each in serving:
                each.cancel()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Pass on what comes until it ends; a TLS connection has no half close."""
    with suppress(OSError):
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
    writer.close()


async def _cut(writer: asyncio.StreamWriter) -> None:
    writer.transport.abort()
    with suppress(OSError):
        await writer.wait_closed()
