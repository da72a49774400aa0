"""The configuration of the gateway: its public URL, and its SSH address."""

from typing import Any

import pytest

from gpuruntime.roles.options import gateway_options_of
from gpuruntime.settings.gateway import GatewaySettings, GatewaySshSettings
from gpuruntime.settings.schema import Settings
from gpuruntime.strict.structure import StrictError, StrictReader
from gpuruntime.tickets.addresses import parse_public_url

_reader = StrictReader()


def test_without_a_public_url_there_is_no_gateway() -> None:
    options = gateway_options_of(Settings())
    assert (options.address, options.ssh_address) == (None, None)


def test_the_addresses_are_those_of_the_configuration() -> None:
    gateway = GatewaySettings(
        publicURL="http://*.localhost:8090",
        exec=False,
        ssh=GatewaySshSettings(host="ssh.example.com:2222"),
    )
    options = gateway_options_of(Settings(gateway=gateway))
    assert options.address == parse_public_url("http://*.localhost:8090")
    assert options.ssh_address == ("ssh.example.com", 2222)
    assert not options.has_exec
    assert GatewaySshSettings(host="ssh.example.com").address == ("ssh.example.com", 22)


@pytest.mark.parametrize(
    ("section", "field"),
    [
        ({"publicURL": "https://units.example.com"}, "publicURL"),
        ({"publicURL": "https://*.example.com", "keyFile": ""}, "keyFile"),
        ({"ssh": {"host": "ssh.example.com:"}}, "ssh.host"),
        ({"ssh": {"host": "ssh.example.com:0"}}, "ssh.host"),
        ({"ssh": {"host": "ssh.example.com:65536"}}, "ssh.host"),
        ({"ssh": {"host": "-oProxyCommand=x"}}, "ssh.host"),
        ({"ssh": {"host": "a b"}}, "ssh.host"),
        ({"plainHosts": True}, "plainHosts"),
    ],
)
def test_a_bad_key_is_named(section: dict[str, Any], field: str) -> None:
    with pytest.raises(StrictError) as caught:
        _reader.read(section, GatewaySettings)
    assert [problem.field for problem in caught.value.problems] == [field]
