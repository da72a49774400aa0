"""What the configuration says of networks and files, as the rooms get it."""

from pathlib import Path

import pytest

from gpuruntime.reconcilers.options import NatsPeer, NetworkOptions
from gpuruntime.roles.options.rooms import file_limits_of, unit_options_of
from gpuruntime.settings.schema import PRIVATE_NETWORKS, load


def network_of(folder: Path, text: str) -> NetworkOptions:
    path = folder / "config.yaml"
    path.write_text(text)
    return unit_options_of(load(str(path), flags={}, environment={})).network


def test_private_networks_are_blocked_by_default(tmp_path: Path) -> None:
    assert network_of(tmp_path, "") == NetworkOptions(blocked_cidrs=PRIVATE_NETWORKS)


def test_what_is_blocked_can_be_chosen_or_given_up(tmp_path: Path) -> None:
    chosen = network_of(tmp_path, "network: {blockedEgressCIDRs: [10.0.0.0/8]}")
    assert chosen == NetworkOptions(blocked_cidrs=("10.0.0.0/8",))
    given_up = network_of(tmp_path, "network: {blockedEgressCIDRs: [], allowAllEgress: true}")
    assert given_up == NetworkOptions(allows_all=True)


def test_name_servers_are_single_addresses(tmp_path: Path) -> None:
    found = network_of(tmp_path, "network: {nameServers: [169.254.20.10, 'fd00::a']}")
    assert found.name_servers == ("169.254.20.10/32", "fd00::a/128")


@pytest.mark.parametrize(
    ("files", "each"),
    [("{}", 64), ("{atOnce: 3}", 1), ("{atOnce: 8}", 2), ("{atOncePerCaller: 5}", 5)],
)
def test_one_caller_has_a_quarter_of_the_files_or_what_is_said(
    tmp_path: Path, files: str, each: int
) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(f"files: {files}")
    settings = load(str(path), flags={}, environment={})
    assert file_limits_of(settings).at_once_each == each


@pytest.mark.parametrize(
    ("nats", "peer"),
    [
        ("{address: 10.0.0.7}", NatsPeer(cidr="10.0.0.7/32")),
        ("{address: 'fd00::7', port: 5222}", NatsPeer(cidr="fd00::7/128", port=5222)),
        (
            "{namespaceLabels: {team: queue}, podLabels: {app: nats}}",
            NatsPeer(namespace_labels={"team": "queue"}, pod_labels={"app": "nats"}),
        ),
    ],
)
def test_nats_is_at_one_address_or_wherever_labels_say(
    tmp_path: Path, nats: str, peer: NatsPeer
) -> None:
    assert network_of(tmp_path, f"network: {{nats: {nats}}}").nats == peer
