"""A unit and a request lead to a ticket or to a refusal; a ticket names its addresses."""

from datetime import UTC, datetime
from random import Random
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

import attrs
import pytest

from gpuruntime.api.errors import ExecOffError, GatewayOffError, PortUnknownError
from gpuruntime.api.tickets.issuer import (
    NO_GATEWAY,
    GatewayOptions,
    TicketIssuer,
    parse_create_ticket,
)
from gpuruntime.cli import parser
from gpuruntime.models.kinds import labels
from gpuruntime.models.kinds.templates import Port, Template
from gpuruntime.models.kinds.units import Access, GPUUnit, GPUUnitSpec
from gpuruntime.models.kubernetes.metadata import ObjectMeta
from gpuruntime.models.requests.tickets import Use
from gpuruntime.models.views.tickets import SshAddress, TicketUnit, TicketView
from gpuruntime.strict.structure import StrictError
from gpuruntime.tickets.addresses import parse_public_url, slug_of
from gpuruntime.tickets.keys import KeyRing, TicketKey
from gpuruntime.tickets.tokens import Claims, TokenType, verify

NOW: Final = datetime(2026, 3, 1, 12, tzinfo=UTC)
RING: Final = KeyRing((TicketKey(id="k1", secret=b"1" * 32),))
GATEWAY: Final = GatewayOptions(
    address=parse_public_url("https://*.units.example.com"),
    ssh_address=("ssh.example.com", 22),
    host_keys=("ssh-ed25519 AAAA",),
    has_exec=True,
)
PORTS: Final = (
    Port(name="http", port=8080),
    Port(name="dns", port=53, protocol="UDP"),
    Port(name="admin", port=9090),
    Port(name="terminal", port=7681),
)
UNIT: Final = GPUUnit(
    metadata=ObjectMeta(name="demo", uid="5b9c", labels={labels.TENANT: "blue"}),
    spec=GPUUnitSpec(specName="g1", template=Template(ports=PORTS), access=Access(generation=3)),
)
SLUG: Final = slug_of("demo", "5b9c")


def issue(
    *uses: str, gateway: GatewayOptions = GATEWAY, ring: KeyRing | None = RING, **more: Any
) -> TicketView:
    issuer = TicketIssuer(gateway, lambda: ring, now=lambda: NOW, rng=Random(1))
    request = parse_create_ticket({"uses": list(uses), **more})
    return issuer.issue(UNIT, request, "ci")[1]


def claims_in(token: str, kind: TokenType = TokenType.TICKET) -> Claims:
    return verify(token, kind, RING, NOW.timestamp())


def entry_in(url: str) -> Claims:
    query = parse_qs(urlsplit(url).query)
    assert query["to"] == ["/"]
    return claims_in(query["ticket"][0], TokenType.ENTRY)


def test_a_ticket_is_for_the_units_incarnation_and_the_callers_uses() -> None:
    view = issue("http", "exec", port="http", seconds=600)
    claims = claims_in(view.ticket)
    assert view.unit == TicketUnit(name="demo", uid="5b9c", generation=3)
    assert (claims.uid, claims.unit, claims.gen, claims.tenant) == ("5b9c", "demo", 3, "blue")
    assert (claims.use, claims.port, claims.sub) == ((Use.HTTP, Use.EXEC), 8080, "ci")
    assert claims.exp - claims.iat == 600
    assert view.expiresAt.timestamp() == claims.exp


def test_two_tickets_have_different_ids() -> None:
    issuer = TicketIssuer(GATEWAY, lambda: RING, now=lambda: NOW, rng=Random(1))
    request = parse_create_ticket({"uses": ["exec"]})
    names = {issuer.issue(UNIT, request, "ci")[0] for _ in range(3)}
    assert len(names) == 3


CALLERS: Final = {
    "a short name": ("ci", "ci"),
    "256 bytes": ("c" * 256, "c" * 256),
    "257 bytes": ("c" * 257, "c" * 256),
    "two bytes each": ("é" * 129, "é" * 128),
    "a character across the end": ("c" + "é" * 128, "c" + "é" * 127),
    "four bytes each": ("🙂" * 1_000, "🙂" * 64),
    "control characters": ("\x01" * 1_000, "\x01" * 256),
}


@pytest.mark.parametrize(("caller", "sub"), CALLERS.values(), ids=CALLERS)
def test_a_ticket_has_at_most_256_bytes_of_the_callers_name_and_counts(
    caller: str, sub: str
) -> None:
    labelled = {labels.TENANT: "t" * 63}
    name = "n" * 63
    metadata = ObjectMeta(name=name, uid="5b9c" * 9, labels=labelled)
    ring = KeyRing((TicketKey(id="k" * 64, secret=b"1" * 32),))
    issuer = TicketIssuer(GATEWAY, lambda: ring, now=lambda: NOW, rng=Random(1))
    request = parse_create_ticket({"uses": [*map(str, Use)], "port": 8080, "seconds": 43_200})
    view = issuer.issue(attrs.evolve(UNIT, metadata=metadata), request, caller)[1]
    entries = [parse_qs(urlsplit(url).query)["ticket"][0] for url in (view.url, view.terminalURL)]
    tokens = {view.ticket: TokenType.TICKET, **dict.fromkeys(entries, TokenType.ENTRY)}
    subs = [verify(each, kind, ring, NOW.timestamp()).sub for each, kind in tokens.items()]
    assert subs == [sub] * 3


def test_each_use_has_its_address_and_no_other() -> None:
    gateway = "wss://gateway.units.example.com/units/demo"
    ssh = SshAddress(
        host="ssh.example.com",
        port=22,
        user="demo",
        command="ssh demo@ssh.example.com",
        hostKeys=("ssh-ed25519 AAAA",),
    )
    view = issue("exec", "forward", "ssh")
    assert view.url == ""
    assert (view.execURL, view.forwardURL) == (f"{gateway}/exec", f"{gateway}/forward")
    assert view.terminalURL.startswith(
        f"https://terminal--{SLUG}.units.example.com/.gpuruntime/enter?ticket="
    )
    assert (view.ssh, view.sshURL) == (ssh, f"{gateway}/ssh")
    view = issue("http", "forward", port=8080)
    assert view.url.startswith(f"https://8080--{SLUG}.units.example.com/.gpuruntime/enter?")
    assert view.forwardURL == f"{gateway}/forward?port=8080"
    assert (view.terminalURL, view.execURL, view.ssh, view.sshURL) == ("", "", None, "")


COMMANDS: Final[dict[str, tuple[str, dict[str, Any], dict[str, str]]]] = {
    "http": (
        "http",
        {"port": "http"},
        {
            "open": "gpuruntime units open demo 8080",
            "curl": 'curl -H "Authorization: Bearer $TICKET" '
            f"https://8080--{SLUG}.units.example.com/",
        },
    ),
    "exec": (
        "exec",
        {},
        {
            "exec": "gpuruntime units exec demo -- uname -a",
            "shell": "gpuruntime units shell demo",
            "cp": "gpuruntime units cp FILE demo:FILE",
        },
    ),
    "forward": ("forward", {}, {"forward": "gpuruntime units forward demo PORT"}),
    "ssh": ("ssh", {}, {"ssh": "gpuruntime units ssh demo"}),
    "forward of one port": (
        "forward",
        {"port": 9090},
        {"forward": "gpuruntime units forward demo 9090"},
    ),
}


@pytest.mark.parametrize(("use", "more", "commands"), COMMANDS.values(), ids=COMMANDS)
def test_a_ticket_has_the_lines_that_its_uses_allow_without_itself(
    use: str, more: dict[str, Any], commands: dict[str, str]
) -> None:
    view = issue(use, **more)
    assert view.commands == commands
    for line in view.commands.values():
        assert view.ticket not in line
        if line.startswith("gpuruntime "):
            parser().parse_args(line.split()[1:])


def test_the_url_of_a_port_named_terminal_is_not_that_of_the_terminals_page() -> None:
    view = issue("http", "exec", port="terminal")
    hosts = [urlsplit(url).hostname for url in (view.url, view.terminalURL)]
    assert hosts == [f"{label}--{SLUG}.units.example.com" for label in ("7681", "terminal")]


def test_an_ssh_address_names_its_port_unless_it_is_22_and_may_be_missing() -> None:
    elsewhere = attrs.evolve(GATEWAY, ssh_address=("ssh.example.com", 2222))
    ssh = issue("ssh", gateway=elsewhere).ssh
    assert ssh is not None
    assert (ssh.port, ssh.command) == (2222, "ssh -p 2222 demo@ssh.example.com")
    without = attrs.evolve(GATEWAY, ssh_address=None)
    ssh = issue("ssh", gateway=without).ssh
    assert ssh is not None
    assert (ssh.host, ssh.command, ssh.hostKeys) == (
        "",
        "gpuruntime units ssh demo",
        ("ssh-ed25519 AAAA",),
    )
    assert issue("ssh", gateway=attrs.evolve(without, host_keys=())).ssh is None


def test_a_url_enters_for_a_minute_for_its_own_use_alone_and_is_no_ticket() -> None:
    view = issue("http", "exec", port="admin", seconds=900)
    page, terminal = entry_in(view.url), entry_in(view.terminalURL)
    ticket = claims_in(view.ticket)
    assert (page.use, page.port) == ((Use.HTTP,), 9090)
    assert (terminal.use, terminal.port) == ((Use.EXEC,), None)
    assert page.exp - page.iat == terminal.exp - terminal.iat == 60
    assert page.until == terminal.until == ticket.exp
    assert len({page.jti, terminal.jti, ticket.jti}) == 3
    assert ticket.until is None


def test_an_entry_never_counts_longer_than_its_ticket() -> None:
    entry = entry_in(issue("http", port="http", seconds=30).url)
    assert entry.exp - entry.iat == 30


OFF: Final = attrs.evolve(GATEWAY, has_exec=False)
DECISIONS: Final = {
    "http by name": (GATEWAY, ["http"], "http", 8080),
    "http by number": (GATEWAY, ["http"], 9090, 9090),
    "http by number in words": (GATEWAY, ["http"], "9090", 9090),
    "http to a UDP port": (GATEWAY, ["http"], "dns", PortUnknownError),
    "http to another name": (GATEWAY, ["http"], "metrics", PortUnknownError),
    "http to another number": (GATEWAY, ["http"], 8081, PortUnknownError),
    "http and forward to another number": (
        GATEWAY,
        ["http", "forward"],
        8081,
        PortUnknownError,
    ),
    "forward to every port": (GATEWAY, ["forward"], None, None),
    "forward by name": (GATEWAY, ["forward"], "admin", 9090),
    "forward to the loopback": (GATEWAY, ["forward"], 5432, 5432),
    "forward to the first port": (GATEWAY, ["forward"], 1, 1),
    "forward to the last port": (GATEWAY, ["forward"], "65535", 65_535),
    "forward to another name": (GATEWAY, ["forward"], "metrics", PortUnknownError),
    "exec": (GATEWAY, ["exec"], None, None),
    "ssh": (GATEWAY, ["ssh"], None, None),
    "without exec: http": (OFF, ["http"], "http", 8080),
    "without exec: forward to every declared port": (OFF, ["forward"], None, None),
    "without exec: forward by name": (OFF, ["forward"], "http", 8080),
    "without exec: forward to the loopback": (OFF, ["forward"], 5432, PortUnknownError),
    "without exec: exec": (OFF, ["exec"], None, ExecOffError),
    "without exec: ssh beside http": (OFF, ["http", "ssh"], "http", ExecOffError),
    "without a gateway": (NO_GATEWAY, ["http"], "http", GatewayOffError),
}


@pytest.mark.parametrize(
    ("gateway", "uses", "port", "expected"), DECISIONS.values(), ids=DECISIONS
)
def test_a_request_leads_to_a_port_or_to_a_refusal(
    gateway: GatewayOptions, uses: list[str], port: Any, expected: Any
) -> None:
    more = {} if port is None else {"port": port}
    if isinstance(expected, type):
        with pytest.raises(expected, match=r"demo|gateway"):
            issue(*uses, gateway=gateway, **more)
    else:
        assert claims_in(issue(*uses, gateway=gateway, **more).ticket).port == expected


def test_a_gateway_without_keys_issues_nothing() -> None:
    with pytest.raises(GatewayOffError, match="keys"):
        issue("exec", ring=None)


FAULTS: Final = {
    "no uses": ({"uses": []}, ["uses"]),
    "uses missing": ({}, ["uses"]),
    "an unknown use": ({"uses": ["exec", "fly"]}, ["uses[1]"]),
    "a use twice": ({"uses": ["exec", "exec"]}, ["uses"]),
    "uses that are a text": ({"uses": "exec"}, ["uses"]),
    "uses of other kinds": ({"uses": [[], {}, 7]}, ["uses[0]", "uses[1]", "uses[2]"]),
    "http without a port": ({"uses": ["http"]}, ["port"]),
    "http with an empty port": ({"uses": ["http"], "port": ""}, ["port"]),
    "http to port 0": ({"uses": ["http"], "port": 0}, ["port"]),
    "forward to port 0": ({"uses": ["forward"], "port": 0}, ["port"]),
    "forward to port 0 in words": ({"uses": ["forward"], "port": "00"}, ["port"]),
    "forward to a negative port": ({"uses": ["forward"], "port": -1}, ["port"]),
    "forward to a negative port in words": ({"uses": ["forward"], "port": "-80"}, ["port"]),
    "forward past the last port": ({"uses": ["forward"], "port": 65_536}, ["port"]),
    "forward far past the last port": ({"uses": ["forward"], "port": "9" * 5_000}, ["port"]),
    "port 0 for exec": ({"uses": ["exec"], "port": 0}, ["port"]),
    "a port for exec": ({"uses": ["exec"], "port": 80}, ["port"]),
    "a port that is true": ({"uses": ["http"], "port": True}, ["port"]),
    "a port in capitals": ({"uses": ["http"], "port": "HTTP"}, ["port"]),
    "a long port": ({"uses": ["http"], "port": "p" * 16}, ["port"]),
    "29 seconds": ({"uses": ["exec"], "seconds": 29}, ["seconds"]),
    "43,201 seconds": ({"uses": ["exec"], "seconds": 43_201}, ["seconds"]),
    "half a second": ({"uses": ["exec"], "seconds": 30.5}, ["seconds"]),
    "a label of 64": ({"uses": ["exec"], "label": "l" * 64}, ["label"]),
    "a label of two lines": ({"uses": ["exec"], "label": "a\nb"}, ["label"]),
    "an unknown field": ({"uses": ["exec"], "tenant": "a"}, ["tenant"]),
    "a list": ([], [""]),
}


@pytest.mark.parametrize(("document", "fields"), FAULTS.values(), ids=FAULTS)
def test_a_bad_request_names_each_field_at_fault(document: object, fields: list[str]) -> None:
    with pytest.raises(StrictError) as caught:
        parse_create_ticket(document)
    assert [problem.field for problem in caught.value.problems] == fields


@pytest.mark.parametrize("seconds", [30, 43_200])
def test_the_bounds_of_seconds_are_allowed(seconds: int) -> None:
    assert parse_create_ticket({"uses": ["exec"], "seconds": seconds}).seconds == seconds


def test_neither_a_ticket_nor_its_urls_are_in_the_repr() -> None:
    view = issue("http", "exec", port="http")
    assert view.ticket not in repr(view)
    assert "ticket=ey" not in repr(view)
