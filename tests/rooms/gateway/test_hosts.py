"""Hosts name one port of one unit, a terminal, or the host for programs; all others are 421."""

import pytest

from gpuruntime.gateway.errors import GatewayError
from gpuruntime.gateway.hosts import Host, PortHost, ProgramHost, TerminalHost, parse_host
from gpuruntime.tickets.addresses import parse_public_url

PUBLIC = parse_public_url("https://*.units.example.com")
LOCAL = parse_public_url("http://*.localhost:8090")


@pytest.mark.parametrize(
    ("text", "host"),
    [
        ("8080--demo-cqluoz2t.units.example.com", PortHost("8080", "demo-cqluoz2t")),
        ("8080--demo-cqluoz2t.units.example.com:8443", PortHost("8080", "demo-cqluoz2t")),
        ("http--demo-cqluoz2t.units.example.com", PortHost("http", "demo-cqluoz2t")),
        ("1--d.units.example.com", PortHost("1", "d")),
        ("65535--d.units.example.com", PortHost("65535", "d")),
        ("80--a--b.units.example.com", PortHost("80", "a--b")),
        ("terminal--demo-x.units.example.com", TerminalHost("demo-x")),
        ("gateway.units.example.com", ProgramHost()),
    ],
)
def test_our_hosts(text: str, host: Host) -> None:
    assert parse_host(text, PUBLIC) == host


def test_the_port_of_a_public_url_is_no_part_of_its_domain() -> None:
    assert parse_host("8080--demo.localhost:8090", LOCAL) == PortHost("8080", "demo")
    assert parse_host("8080--demo.localhost:1234", LOCAL) == PortHost("8080", "demo")
    assert parse_host("gateway.localhost", LOCAL) == ProgramHost()


@pytest.mark.parametrize(
    "label",
    [
        "",
        "0--demo",
        "65536--demo",
        "080--demo",
        "99999999--demo",
        "-1--demo",
        "8080-demo",
        "8080--",
        "--demo",
        "8080--demo-",
        "8080---demo",
        "8080--DEMO",
        "HTTP--demo",
        "8080--demo.",
        "a.8080--demo",
        "8080--d_mo",
        "8080--dé",
        "8080--demo ",
        " 8080--demo",
        "8080--demo\t",
        "8080--demo\n",
        "user@8080--demo",
        "a-port-of-16-char--demo",
        "8080--" + "d" * 58,
        "*",
        "Gateway",
    ],
)
def test_a_label_that_is_none_is_misdirected(label: str) -> None:
    with pytest.raises(GatewayError) as caught:
        parse_host(f"{label}.units.example.com", PUBLIC)
    assert (caught.value.status, caught.value.code) == (421, "misdirected")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "127.0.0.1",
        "127.0.0.1:8090",
        "[::1]:8090",
        "0x7f.1",
        "localhost",
        "units.example.com",
        ".units.example.com",
        "8080--demo.example.com",
        "8080--demo.units.example.com.",
        "8080--demo.units.example.com.evil.org",
        "8080--demo.UNITS.example.com",
        "8080--demo.units.example.com:0",
        "8080--demo.units.example.com:",
        "8080--demo.units.example.com:port",
        "8080--demo.evilunits.example.com",
    ],
)
def test_another_domain_is_misdirected(text: str) -> None:
    with pytest.raises(GatewayError) as caught:
        parse_host(text, PUBLIC)
    assert caught.value.status == 421
