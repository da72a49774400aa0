"""The terminal's page before a real shell: typing, sizes, colours, ends, and its policy."""

import asyncio
import itertools
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import attrs
import pytest

from gpuruntime.embedded.cluster import ClusterOptions, EmbeddedCluster
from gpuruntime.embedded.processes.programs import Program
from gpuruntime.gateway.connections import Connections, End
from gpuruntime.gateway.containers.exec_session import ExecSessions
from gpuruntime.gateway.containers.session import SessionTimes
from gpuruntime.gateway.containers.terminal_page import TerminalPage
from gpuruntime.gateway.errors import Code, GatewayError
from gpuruntime.gateway.gate import Visitor
from gpuruntime.kube.client import Client
from gpuruntime.models.encoding.json import JsonObject
from gpuruntime.models.kinds import labels
from gpuruntime.models.kubernetes.metadata import Key
from gpuruntime.models.kubernetes.pods import PODS
from gpuruntime.models.requests.tickets import CreateTicket, Use
from tests.eventually import eventually
from tests.proofs.browser.chromium import PATIENCE_SECONDS, Tab, browsing
from tests.proofs.conformance.objects import NAMESPACES
from tests.proofs.conformance.servers import QUICK, now
from tests.rooms.gateway.containers.scripted_cluster import (
    NAMESPACE,
    UID,
    new_connections,
    serving,
    visitor,
)
from tests.rooms.roles.dev.test_dev_reach import reaching

pytestmark = pytest.mark.cluster

IMAGE = "example/python:1"
POD = Key(NAMESPACE, "demo-1")
# Every other host is unknown, as without a network.
LOCAL = "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE *.localhost"
OFFLINE = "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"
SCREEN = "document.querySelector('.xterm-rows').innerText.replaceAll('\\u00a0', ' ')"
STATE = "document.getElementById('state').textContent"


@asynccontextmanager
async def unit_with_a_shell() -> AsyncIterator[Client]:
    python = Program(name="python", path=sys.executable)
    cluster = EmbeddedCluster(
        now=now, options=ClusterOptions(pace=QUICK, programs={IMAGE: python, "python": python})
    )
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(cluster.run(), name="cluster")
        await cluster.ready.wait()
        client = Client(cluster.transport)
        container: JsonObject = {
            "name": "runtime",
            "image": IMAGE,
            "command": ["python", "-c", "import time; time.sleep(3600)"],
        }
        metadata: JsonObject = {"name": POD.name, "labels": {labels.UNIT_UID: UID}}
        await client.create(NAMESPACES, {"metadata": {"name": NAMESPACE}})
        body: JsonObject = {"metadata": metadata, "spec": {"containers": [container]}}
        await client.create(PODS, body, namespace=NAMESPACE)
        await eventually(
            lambda: client.get(PODS, POD),
            lambda pod: pod.is_ready,
            within_seconds=PATIENCE_SECONDS,
        )
        yield client
        running.cancel()


@attrs.frozen
class Terminal:
    tab: Tab
    connections: Connections
    admitted: list[bool]

    async def types(self, text: str) -> None:
        await self.tab.type(text)
        await self.tab.press("Enter")

    async def shows(self, text: str) -> None:
        await self.tab.until(f"{SCREEN}.includes({text!r})")

    async def says(self, text: str) -> None:
        await self.tab.until(f"{STATE}.includes({text!r})")


@pytest.fixture
async def terminal(program: Path, tmp_path: Path) -> AsyncIterator[Terminal]:
    admitted = [True]
    connections = new_connections()

    async def admit(*_: object) -> Visitor:
        if not admitted[0]:
            raise GatewayError(Code.TICKET_REFUSED, "the ticket has expired: create another one")
        return visitor(Use.EXEC)

    async with unit_with_a_shell() as client:
        sessions = ExecSessions(client, connections, SessionTimes(idle_seconds=60.0))
        page = TerminalPage(sessions, admit)
        async with (
            serving(lambda request, _: page.serve(request, "demo"), visitor(Use.EXEC)) as site,
            browsing(program, tmp_path / "profile", OFFLINE) as browser,
        ):
            tab = await browser.open()
            await tab.look(1000, 600, scheme="dark")
            await tab.go(str(site.client.make_url("/")))
            shown = Terminal(tab, connections, admitted)
            await shown.says("Connected")
            yield shown
            assert tab.faults == []
            await tab.go("about:blank")


async def test_on_dev_a_ticket_leads_to_a_terminal(program: Path, tmp_path: Path) -> None:
    async with reaching() as client, browsing(program, tmp_path / "profile", LOCAL) as browser:
        ticket = (await client.units.ticket("demo", CreateTicket(uses=(Use.EXEC,)))).data
        tab = await browser.open(ticket.terminalURL)
        terminal = Terminal(tab, new_connections(), [])
        await terminal.says("Connected")
        assert await tab.evaluate("[location.pathname, location.search]") == ["/", ""]
        assert await tab.evaluate("document.title") == "demo: terminal"
        await terminal.types("echo $((6 * 7))-answers")
        await terminal.shows("42-answers")
        await client.units.revoke_tickets("demo")
        await terminal.says("the session has ended: revoked. Open the terminal again")
        assert tab.faults == []
        await tab.go("about:blank")


async def test_what_is_typed_reaches_the_shell_and_its_output_is_shown(
    terminal: Terminal,
) -> None:
    await terminal.types("echo $((6 * 7))-answers")
    await terminal.shows("42-answers")


async def test_the_shell_follows_the_size_of_the_window(terminal: Terminal) -> None:
    asked = itertools.count()

    async def size() -> list[int]:
        mark = f"size-{next(asked)}"
        await terminal.types(f"echo {mark}: $(stty size).")
        answer = f"{SCREEN}.match(/{mark}: (\\d+) (\\d+)\\./)"
        sides = await terminal.tab.value(f"(found => found && found.slice(1))({answer})")
        return [int(side) for side in sides]

    rows, columns = await size()
    await terminal.tab.look(600, 900, scheme="dark")
    await eventually(
        size,
        lambda found: found[0] > rows and found[1] < columns,
        within_seconds=PATIENCE_SECONDS,
    )


async def test_a_long_paste_arrives_whole(terminal: Terminal) -> None:
    program = "head -c 100000 | tr -d x | wc -c"
    await terminal.types(f"stty -echo -icanon; echo list''ening; {program}; stty sane")
    await terminal.shows("listening")  # before it, the terminal keeps 4,096 bytes of a line
    await terminal.tab.evaluate(
        "(data => { data.setData('text/plain', 'x'.repeat(99995) + '12345');"
        "document.querySelector('textarea').dispatchEvent(new ClipboardEvent('paste',"
        "{clipboardData: data, bubbles: true})); })(new DataTransfer())"
    )
    await terminal.tab.until(f"/^5$/m.test({SCREEN})")


async def test_colours_of_a_program_are_shown_under_the_policy(terminal: Terminal) -> None:
    await terminal.types("printf '\\033[38;2;1;200;3mgreen\\033[0m\\n'")
    await terminal.tab.until(
        "[...document.querySelectorAll('.xterm-rows span')].some(e => e.textContent === 'green'"
        " && getComputedStyle(e).color === 'rgb(1, 200, 3)')"
    )
    ground = "document.querySelector('.xterm-scrollable-element')"
    await terminal.tab.equals(f"getComputedStyle({ground}).backgroundColor", "rgb(15, 19, 23)")


async def test_the_end_of_the_shell_is_said_and_another_one_starts(terminal: Terminal) -> None:
    await terminal.types("exit 7")
    await terminal.says("The shell has ended with exit code 7")
    await terminal.tab.equals("document.activeElement.id", "again")
    await terminal.tab.press("Enter")
    await terminal.says("Connected")
    await terminal.types("echo again-$((1 + 1))")
    await terminal.shows("again-2")


async def test_a_revoked_session_says_what_to_do(terminal: Terminal) -> None:
    terminal.connections.end_all(End.REVOKED)
    await terminal.says("the session has ended: revoked. Open the terminal again")
    await terminal.tab.equals("document.activeElement.id", "again")
    terminal.admitted[0] = False
    await terminal.tab.press("Enter")
    await terminal.says("the ticket has expired: create another one")


async def test_the_page_loads_nothing_from_another_host_and_runs_no_inline_code(
    terminal: Terminal,
) -> None:
    hosts = await terminal.tab.evaluate(
        "[...new Set(performance.getEntriesByType('resource').map(e => new URL(e.name).host))]"
    )
    assert hosts == [await terminal.tab.evaluate("location.host")]
    ran = await terminal.tab.evaluate(
        "(() => { const e = document.createElement('script'); e.append('window.ran = 1');"
        "document.body.append(e); return window.ran; })()"
    )
    assert ran is None
    await eventually(lambda: terminal.tab.faults, within_seconds=PATIENCE_SECONDS)
    await terminal.tab.go("about:blank")
    terminal.tab.faults.clear()  # the attempts of this test
