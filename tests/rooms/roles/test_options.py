"""The configuration as options of the rooms."""

from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import nkeys
import pytest

from gpuruntime.reconcilers.options import NatsPeer, NetworkOptions, SidecarOptions
from gpuruntime.roles.options import file_limits_of, mint_of, sidecar_options_of, unit_options_of
from gpuruntime.settings.load import load
from gpuruntime.settings.schema import PRIVATE_NETWORKS, Settings
from tests.options import configured

LOGIN = "nats: {url: 'nats://nats:4222', user: ali, passwordFile: /p, caFile: /ca}"
NOW = datetime(2025, 1, 1, tzinfo=UTC)


def settings(folder: Path, text: str) -> Settings:
    path = folder / "config.yaml"
    path.write_text(text)
    return load(str(path), flags={}, environment={})


def network_of(folder: Path, text: str) -> NetworkOptions:
    return unit_options_of(settings(folder, text)).network


def test_private_networks_are_blocked_by_default(tmp_path: Path) -> None:
    assert network_of(tmp_path, "").blocked_cidrs == PRIVATE_NETWORKS


def test_the_blocked_networks_can_be_chosen_or_dropped(tmp_path: Path) -> None:
    chosen = network_of(tmp_path, "network: {blockedEgressCIDRs: [10.0.0.0/8]}")
    assert (chosen.blocked_cidrs, chosen.allows_all) == (("10.0.0.0/8",), False)
    given_up = network_of(tmp_path, "network: {blockedEgressCIDRs: [], allowAllEgress: true}")
    assert (given_up.blocked_cidrs, given_up.allows_all) == ((), True)


def test_name_servers_are_single_addresses(tmp_path: Path) -> None:
    found = network_of(tmp_path, "network: {nameServers: [169.254.20.10, 'fd00::a']}")
    assert found.name_servers == ("169.254.20.10/32", "fd00::a/128")


@pytest.mark.parametrize(
    ("files", "each"),
    [("{}", 64), ("{atOnce: 3}", 1), ("{atOnce: 8}", 2), ("{atOncePerCaller: 5}", 5)],
)
def test_each_caller_has_a_quarter_of_the_transfers_or_the_configured_number(
    tmp_path: Path, files: str, each: int
) -> None:
    assert file_limits_of(settings(tmp_path, f"files: {files}")).at_once_each == each


@pytest.mark.parametrize(
    ("nats", "peer"),
    [
        ("{address: 10.0.0.7}", configured(NatsPeer, cidr="10.0.0.7/32")),
        ("{address: 'fd00::7', port: 5222}", configured(NatsPeer, cidr="fd00::7/128", port=5222)),
        (
            "{namespaceLabels: {team: queue}, podLabels: {app: nats}}",
            configured(NatsPeer, namespace_labels={"team": "queue"}, pod_labels={"app": "nats"}),
        ),
    ],
    ids=["address", "address and port", "labels"],
)
def test_the_broker_is_at_one_address_or_found_by_labels(
    tmp_path: Path, nats: str, peer: NatsPeer
) -> None:
    assert network_of(tmp_path, f"network: {{nats: {nats}}}").nats == peer


def test_the_default_worker_has_the_managers_version_and_functions_are_off(
    tmp_path: Path,
) -> None:
    found = sidecar_options_of(settings(tmp_path, ""))
    assert found.image == f"gpuruntime:{version('gpuruntime')}"
    assert found.broker_url == ""


def test_worker_options_follow_the_configuration(tmp_path: Path) -> None:
    text = (
        "nats: {url: 'nats://nats:4222', subjectPrefix: gpu}\n"
        "worker: {ackWait: 20s, resultRetention: 1h}\n"
        "serverless: {image: r/g:1, cpu: 1m, cpuLimit: '2', memory: 1Gi, drain: 5s}"
    )
    assert sidecar_options_of(settings(tmp_path, text)) == configured(
        SidecarOptions,
        image="r/g:1",
        cpu="1m",
        cpu_limit="2",
        memory="1Gi",
        drain_seconds=5.0,
        broker_url="nats://nats:4222",
        subject_prefix="gpu",
        ack_wait_seconds=20.0,
        retention_seconds=3600.0,
    )


def test_workers_share_the_configured_login_without_a_signing_key(tmp_path: Path) -> None:
    given = settings(tmp_path, LOGIN)
    found = sidecar_options_of(given)
    assert found.broker_user == "ali"
    assert found.broker_files == {"caFile": "/ca", "passwordFile": "/p"}
    assert mint_of(given, now=lambda: NOW) is None


@pytest.mark.parametrize("account", ["", "A" * 56])
def test_workers_get_nothing_of_the_configured_login_with_a_signing_key(
    tmp_path: Path, account: str
) -> None:
    seed = tmp_path / "account.nk"
    seed.write_bytes(nkeys.encode_seed(b"1" * 32, nkeys.PREFIX_BYTE_ACCOUNT))
    signing = (
        f"serverless: {{signingKeyFile: {seed}, account: '{account}', credentialsLifetime: 1h}}"
    )
    given = settings(tmp_path, f"{LOGIN}\n{signing}")
    found = sidecar_options_of(given)
    assert (found.broker_user, found.broker_files) == ("", {"caFile": "/ca"})
    mint = mint_of(given, now=lambda: NOW)
    assert mint is not None
    assert mint.lifetime_seconds == 3600.0
    assert mint.worker("echo", "echo-w-1").text != mint.worker("echo", "echo-w-1").text
