"""Addresses of a unit below the gateway's public URL, and the slug within them."""

import pytest

from gpuruntime.models.kubernetes.names import LONGEST_LABEL
from gpuruntime.tickets.addresses import entrance_of, parse_public_url, slug_of

PUBLIC = parse_public_url("https://*.units.example.com")


def test_a_slug_names_one_incarnation() -> None:
    slug = slug_of("demo", "6f2c")
    assert slug == slug_of("demo", "6f2c") == "demo-cqluoz2t"
    assert slug != slug_of("demo", "6f2d")


def test_the_longest_slug_with_the_longest_port_is_one_label() -> None:
    origin = PUBLIC.of_port(slug_of("n" * LONGEST_LABEL, "uid"), 65_535)
    label = origin.removeprefix("https://").partition(".")[0]
    assert label.startswith(f"65535--{'n' * 40}-")
    assert len(label) == 56


def test_every_address_is_below_the_domain() -> None:
    assert PUBLIC.of_port("demo-x", 80) == "https://80--demo-x.units.example.com"
    assert PUBLIC.of_terminal("demo-x") == "https://terminal--demo-x.units.example.com"
    assert (
        PUBLIC.of_program("demo", "forward", {"port": "80"})
        == "wss://gateway.units.example.com/units/demo/forward?port=80"
    )
    local = parse_public_url("http://*.localhost:8090")
    assert local.of_program("demo", "exec", {}) == "ws://gateway.localhost:8090/units/demo/exec"


def test_an_entrance_has_its_entry_in_the_query() -> None:
    assert entrance_of("https://a.b", "x.y.z") == (
        "https://a.b/.gpuruntime/enter?ticket=x.y.z&to=%2F"
    )


@pytest.mark.parametrize(
    "text",
    [
        "",
        "https://units.example.com",
        "https://*.units.example.com/",
        "https://*.units.example.com/path",
        "ftp://*.units.example.com",
        "https://*.*.example.com",
        "https://*.Units.example.com",
        "https://*.units.example.com:0",
        "https://*.units.example.com:65536",
        "https://user@*.units.example.com",
        f"https://*.{'a.' * 100}com",
        "https://*.units.example.com\n",
    ],
)
def test_another_public_url_is_rejected(text: str) -> None:
    with pytest.raises(ValueError, match="is no"):
        parse_public_url(text)
