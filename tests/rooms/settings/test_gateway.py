"""The configuration of the gateway: its public URL, and its SSH address."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpuruntime.errors import ConfigurationError
from gpuruntime.roles.options import gateway_options_of
from gpuruntime.settings.gateway import GatewaySettings, GatewaySshSettings
from gpuruntime.settings.load import load
from gpuruntime.settings.schema import Settings
from gpuruntime.tickets.addresses import parse_public_url


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
        ({"plainHost": True}, "plainHost"),
        ({"api": "gpuruntime-api:8080"}, "api"),
        ({"bytes": {"head": 100}}, "bytes.head"),
        ({"bytes": {"upload": "0"}}, "bytes.upload"),
        ({"connections": {"perTicket": 0}}, "connections.perTicket"),
        ({"whenUnknown": "guess"}, "whenUnknown"),
    ],
)
def test_a_bad_key_is_named(section: dict[str, Any], field: str, tmp_path: Path) -> None:
    path = tmp_path / "gateway.yaml"
    path.write_text(yaml.safe_dump({"gateway": section}))
    with pytest.raises(ConfigurationError, match=re.escape(f"gateway.{field}: ")) as caught:
        load(str(path), flags={}, environment={})
    assert ";" not in str(caught.value), "exactly one key is at fault"
