"""A person in a browser gets a page in plain words; a program gets JSON."""

import base64
import hashlib
import json
import re
from collections.abc import Mapping
from datetime import timedelta
from html import unescape
from typing import Any, Final

import attrs
import pytest
from aiohttp import web
from multidict import CIMultiDict

from gpuruntime.gateway.errors import Code, GatewayError
from gpuruntime.gateway.hosts import Host, PortHost, ProgramHost, TerminalHost
from gpuruntime.gateway.pages import Place, place_of, refusal_page, wants_page
from gpuruntime.models.kinds.reasons import UnitReason
from gpuruntime.models.kinds.units import GPUUnit
from gpuruntime.tickets.tokens import Refusal, TokenType
from tests.rooms.gateway.service import DEMO, Caller, gateway, upstream
from tests.rooms.gateway.test_app import NOWHERE
from tests.rooms.gateway.test_sessions import entry, path_of
from tests.rooms.gateway.test_wake import with_ready
from tests.rooms.gateway.visitors import NOW, ticket, unit

HTML: Final = {"Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}
NAVIGATION: Final = {**HTML, "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
# The headers of requests that no person looks at.
PROGRAMS: Final[tuple[Mapping[str, str], ...]] = (
    {},
    {"Accept": "application/json"},
    {"Accept": "*/*", "Sec-Fetch-Mode": "cors", "Sec-Fetch-Dest": "empty"},
)
SUSPENDED: Final = unit(suspended=True)
ASLEEP: Final = unit(suspended=True, wake=True)
STARTING: Final = with_ready(unit(), UnitReason.POD_STARTUP_FAILED, "exit code 1")
WAITING: Final = with_ready(unit(wake=True), UnitReason.POD_UNSCHEDULABLE, "no <node> is free")
OPEN: Final = "gpuruntime units open demo 8080"


def session(**changed: Any) -> dict[str, str]:
    return {"Cookie": f"__Host-gpuruntime={ticket(DEMO, TokenType.SESSION, **changed)}"}


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        pytest.param(NAVIGATION, True, id="a browser opens its page"),
        pytest.param(HTML, True, id="a browser without encryption, which names no mode"),
        pytest.param({**NAVIGATION, "Sec-Fetch-Dest": "iframe"}, False, id="a frame"),
        pytest.param({**HTML, "Sec-Fetch-Mode": "cors"}, False, id="fetch that takes HTML"),
        pytest.param({**HTML, "Sec-Fetch-Mode": "no-cors"}, False, id="an image"),
        pytest.param({"Sec-Fetch-Mode": "websocket"}, False, id="a WebSocket"),
        pytest.param({"Accept": "*/*"}, False, id="curl"),
        pytest.param({}, False, id="a program that says nothing"),
    ],
)
def test_who_gets_a_page(headers: dict[str, str], expected: bool) -> None:
    assert wants_page(CIMultiDict(headers)) is expected


@attrs.frozen(kw_only=True)
class Case:
    """A refusal: `code` and `reason` are in the JSON, and `title` and `words` on the page."""

    status: int
    code: str
    title: str
    words: str
    of: GPUUnit = DEMO
    reason: str | None = None
    headers: Mapping[str, str] = attrs.field(factory=dict)
    path: str = "/"
    host: str = ""
    method: str = "GET"
    age: float = 0.0
    later: float = 0.0


CASES: Final = {
    "no ticket": Case(status=401, code="ticket_missing", title="You need a ticket", words=OPEN),
    "an expired session": Case(
        headers=session(),
        later=901,
        status=403,
        code="ticket_refused",
        reason="expired",
        title="The ticket has expired",
        words=OPEN,
    ),
    "a revoked session": Case(
        headers=session(gen=-1),
        status=403,
        code="ticket_refused",
        reason="revoked",
        title="The ticket has been revoked",
        words=OPEN,
    ),
    "a link that is too old": Case(
        path=path_of(entry()),
        later=61,
        status=403,
        code="ticket_refused",
        reason="expired",
        title="This link counts no longer",
        words=OPEN,
    ),
    "a form of another site": Case(
        headers={**session(), "Origin": "https://evil.example"},
        method="POST",
        status=403,
        code="another_origin",
        title="Another site asked for this",
        words="the unit did not receive it",
    ),
    "an unknown host": Case(
        host="example.org",
        status=421,
        code="misdirected",
        title="No unit is at this address",
        words="gpuruntime units open NAME",
    ),
    "a path of ours with nothing at it": Case(
        path="/.gpuruntime/else",
        status=404,
        code="not_found",
        title="Nothing is at this address",
        words="Check the address",
    ),
    "a deleted unit": Case(
        of=unit("other"),
        headers=session(),
        status=404,
        code="unit_unknown",
        title="This unit does not exist any more",
        words="gpuruntime units list",
    ),
    "a suspended unit": Case(
        of=SUSPENDED,
        headers=session(),
        status=503,
        code="unit_suspended",
        title="The unit is suspended",
        words="gpuruntime units resume demo --wait",
    ),
    "nothing listens": Case(
        headers=session(),
        status=502,
        code="upstream_fault",
        title="The unit does not answer",
        words="gpuruntime units logs demo",
    ),
    "no ready worker": Case(
        of=STARTING,
        headers=session(),
        status=502,
        code="upstream_fault",
        title="The unit does not answer",
        words="The unit is not ready: PodStartupFailed: exit code 1",
    ),
    "a silent cluster": Case(
        headers=session(),
        age=61.0,
        status=503,
        code="revocation_unknown",
        title="The cluster is silent",
        words="Try again in a minute",
    ),
}


async def asked(caller: Caller, case: Case, headers: Mapping[str, str]) -> tuple[Any, str]:
    caller.world.age, caller.world.now = case.age, NOW + timedelta(seconds=case.later)
    given = {**case.headers, **headers}
    async with caller.request(case.method, case.path, host=case.host, headers=given) as got:
        return got, await got.text()


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
async def test_a_person_reads_what_happened_and_what_to_do(case: Case) -> None:
    async with gateway(NOWHERE, case.of) as caller:
        got, text = await asked(caller, case, NAVIGATION)
    assert (got.status, got.content_type) == (case.status, "text/html")
    assert f"<h1>{case.title}</h1>" in text
    assert case.words in unescape(text)
    assert case.code in text
    assert "http-equiv" not in text, "only the page of a waking unit loads itself again"
    assert "gpuruntime-" not in text


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
async def test_a_program_gets_json(case: Case) -> None:
    async with gateway(NOWHERE, case.of) as caller:
        for headers in PROGRAMS:
            got, text = await asked(caller, case, headers)
            assert (got.status, got.content_type) == (case.status, "application/json")
            error = json.loads(text)["error"]
            assert (error["code"], error.get("reason")) == (case.code, case.reason)
            assert set(error) <= {"code", "message", "details", "reason"}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
async def test_a_page_has_the_headers_of_the_json_and_runs_nothing(case: Case) -> None:
    async with gateway(NOWHERE, case.of) as caller:
        page, text = await asked(caller, case, NAVIGATION)
        answer, _ = await asked(caller, case, {})
    own = {"Content-Type", "Content-Length", "Content-Security-Policy", "Date"}
    shared = [{k: v for k, v in each.headers.items() if k not in own} for each in (page, answer)]
    assert shared[0] == shared[1]
    policy = page.headers["Content-Security-Policy"].split("; ")
    style = re.findall("<style>(.*?)</style>", text, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(style[0].encode()).digest()).decode()
    assert policy == [
        "default-src 'none'",
        f"style-src 'sha256-{digest}'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    ]
    assert len(style) == 1
    assert re.search(r"<script|<link|<img|\bsrc=| style=| on[a-z]+=", text) is None


@pytest.mark.parametrize("of", [ASLEEP, WAITING], ids=["asleep", "without capacity"])
async def test_the_page_of_a_waking_unit_loads_itself_again(of: GPUUnit) -> None:
    async with (
        gateway(NOWHERE, of, api="http://127.0.0.1:1") as caller,
        caller.request("GET", "/", headers={**session(), **NAVIGATION}) as got,
    ):
        text = await got.text()
        assert (got.status, got.headers["Retry-After"]) == (503, "2")
    assert "<meta http-equiv=refresh content=2>" in text
    assert ("PodUnschedulable: no &lt;node&gt; is free" in text) is (of is WAITING)
    assert "<node>" not in text


async def test_an_answer_of_the_unit_is_its_own_whatever_its_status() -> None:
    async def fails(_: web.Request) -> web.Response:
        return web.Response(status=503, text="mine")

    async with (
        upstream(fails) as port,
        gateway(port) as caller,
        caller.request("GET", "/", headers={**session(), **NAVIGATION}) as got,
    ):
        assert (got.status, await got.text()) == (503, "mine")


@pytest.mark.parametrize(
    ("host", "is_plain", "expected"),
    [
        pytest.param(PortHost("http", "demo-abcdefgh"), False, ("demo", "http"), id="a slug"),
        pytest.param(PortHost("80", f"{'a' * 40}-abcdefgh"), False, ("", "80"), id="a cut name"),
        pytest.param(PortHost("80", f"{'a' * 40}-abcdefgh"), True, ("", "80"), id="cut, plain"),
        pytest.param(PortHost("80", "demo"), False, ("", "80"), id="no slug"),
        pytest.param(PortHost("80", "demo"), True, ("demo", "80"), id="a plain name"),
        pytest.param(PortHost("80", "my-training"), True, ("", "80"), id="a name, or a slug"),
        pytest.param(TerminalHost("demo-abcdefgh"), False, ("demo", ""), id="a terminal"),
        pytest.param(ProgramHost(), True, ("", ""), id="programs"),
    ],
)
def test_commands_name_the_unit_only_if_the_address_does(
    host: Host, is_plain: bool, expected: tuple[str, str]
) -> None:
    place = place_of(host, has_plain_hosts=is_plain)
    assert (place.unit, place.port) == expected


def test_at_a_terminal_the_remedy_is_another_terminal() -> None:
    error = GatewayError(Code.TICKET_REFUSED, "no", reason=Refusal.EXPIRED)
    text = refusal_page(error, Place(unit="demo", is_terminal=True)).text or ""
    assert "gpuruntime units shell demo" in text
    assert "units open" not in text


def test_every_refusal_has_a_page() -> None:
    for code in Code:
        for reason in ("", *Refusal) if code is Code.TICKET_REFUSED else ("",):
            page = refusal_page(GatewayError(code, "a <b> message", reason=reason), Place())
            text = page.text or ""
            assert "a &lt;b&gt; message" in text
            assert "{" not in text.partition("</style>")[2], "a command is filled in"
