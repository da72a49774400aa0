"""Credential plugins that work, and every way in which they fail."""

import os
import select
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from gpuruntime.errors import ConfigurationError
from gpuruntime.kube.connect.exec_plugin import ExecPlugin, PluginCredential
from tests.rooms.kube.connect.kubeconfigs import printing, write_plugin

ORIGIN = "kubeconfig here, context dev"


def run(plugin: dict[str, Any], cluster: dict[str, Any] | None = None) -> PluginCredential:
    return ExecPlugin(timeout_seconds=10.0).run(plugin, cluster or {}, ORIGIN)


def test_a_token_carries_its_expiration(tmp_path: Path) -> None:
    status = "{'token': 't1', 'expirationTimestamp': '2026-01-01T00:00:00Z'}"
    credential = run(write_plugin(tmp_path, printing(status)))
    assert credential.token == "t1"
    assert credential.expirationTimestamp is not None
    assert credential.expirationTimestamp.isoformat() == "2026-01-01T00:00:00+00:00"


def test_a_plugin_receives_its_cluster_and_its_variables(tmp_path: Path) -> None:
    source = printing(
        "{'token': os.environ['REGION'] + json.loads(os.environ['KUBERNETES_EXEC_INFO'])"
        "['spec']['cluster']['server']}"
    )
    plugin = {
        **write_plugin(tmp_path, source),
        "provideClusterInfo": True,
        "env": [{"name": "REGION", "value": "north-"}],
    }
    assert run(plugin, {"server": "https://a"}).token == "north-https://a"


@pytest.mark.parametrize(
    ("source", "fault"),
    [
        ("import sys; sys.exit('log in first')", "exit code 1: log in first"),
        ("print('garbage secret-token')", "no ExecCredential printed"),
        ("print('[]')", "no ExecCredential printed"),
        ("", "no ExecCredential printed"),
        ('print(\'{"kind": "Secret", "apiVersion": "v1"}\')', "printed v1 Secret instead"),
        (printing("{}"), "neither a token nor a client certificate"),
        (printing("None"), "neither a token nor a client certificate"),
        (printing("{'clientCertificateData': 'pem'}"), "go together"),
        (printing("{'token': 5}"), "no ExecCredential printed"),
        (
            printing("{'token': 't', 'expirationTimestamp': 'secret-token'}"),
            "no ExecCredential printed",
        ),
    ],
    ids=[
        "exit code",
        "garbage",
        "list",
        "nothing",
        "another kind",
        "empty status",
        "null status",
        "certificate without key",
        "token of a wrong type",
        "expiration of a wrong form",
    ],
)
def test_a_failing_plugin_is_reported_in_one_line_without_its_output(
    tmp_path: Path, source: str, fault: str
) -> None:
    plugin = write_plugin(tmp_path, source)
    with pytest.raises(ConfigurationError) as caught:
        run(plugin)
    message = str(caught.value)
    assert message.startswith(f"{ORIGIN}: credential plugin '{plugin['command']}': ")
    assert fault in message
    assert "secret-token" not in message
    assert "\n" not in message


def test_a_missing_program_is_reported_with_its_hint(tmp_path: Path) -> None:
    plugin = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": str(tmp_path / "missing"),
        "installHint": "install it from\nthe vendor",
    }
    with pytest.raises(ConfigurationError, match=r"cannot be run: .* install it from the vendor"):
        run(plugin)


@pytest.mark.parametrize(
    ("members", "fault"),
    [
        ({"args": 5}, "args is not a list"),
        ({"args": "secret"}, "args is not a list"),
        ({"env": 5}, "env is not a list: write items with name and value"),
        ({"env": {"TOKEN": "secret"}}, "env is not a list"),
        ({"apiVersion": ["v1"]}, "apiVersion is not plain text"),
        ({"command": ["sh"]}, "command is not plain text"),
    ],
    ids=[
        "args a number",
        "args a text",
        "env a number",
        "env a mapping",
        "apiVersion a list",
        "command a list",
    ],
)
def test_a_malformed_section_is_reported_without_its_content(
    tmp_path: Path, members: dict[str, Any], fault: str
) -> None:
    with pytest.raises(ConfigurationError, match=fault) as caught:
        run({**write_plugin(tmp_path, printing("{'token': 't'}")), **members})
    assert "secret" not in str(caught.value)
    assert not (tmp_path / "runs").exists()


def cycle() -> list[Any]:
    made: list[Any] = []
    made.append(made)
    return made


@pytest.mark.parametrize(
    "extension", [{None: "secret"}, cycle()], ids=["a key that is none", "a cycle"]
)
def test_a_cluster_without_a_json_form_is_a_fault(tmp_path: Path, extension: object) -> None:
    plugin = {**write_plugin(tmp_path, printing("{'token': 't'}")), "provideClusterInfo": True}
    with pytest.raises(
        ConfigurationError, match="cannot be written as JSON: check its extensions"
    ):
        run(plugin, {"extensions": extension})


def test_a_plugin_that_needs_a_terminal_is_not_started(tmp_path: Path) -> None:
    plugin = {**write_plugin(tmp_path, printing("{'token': 't'}")), "interactiveMode": "Always"}
    with pytest.raises(ConfigurationError, match="needs a terminal"):
        run(plugin)
    assert not (tmp_path / "runs").exists()


@pytest.fixture
def hanging(tmp_path: Path) -> Iterator[tuple[dict[str, Any], int]]:
    """A plugin that hangs beside a child, and a pipe that both hold open while they live."""
    pipe = tmp_path / "alive"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    os.set_blocking(reader, True)
    script = f"exec 3>{pipe}; sleep 600 >&3 & printf started >&3; sleep 600"
    plugin = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": "sh",
        "args": ["-c", script],
    }
    yield plugin, reader
    os.close(reader)


def test_a_plugin_that_hangs_ends_at_its_deadline_with_all_it_started(
    hanging: tuple[dict[str, Any], int],
) -> None:
    plugin, alive = hanging
    with pytest.raises(ConfigurationError, match="no answer within 1 s: run it by hand"):
        ExecPlugin(timeout_seconds=1.0).run(plugin, {}, ORIGIN)
    assert os.read(alive, 100) == b"started"
    assert os.read(alive, 100) == b""


def test_stopping_ends_a_running_plugin_and_all_it_started(
    hanging: tuple[dict[str, Any], int],
) -> None:
    section, alive = hanging
    plugin = ExecPlugin(timeout_seconds=60.0)
    with ThreadPoolExecutor(1) as threads:
        running = threads.submit(plugin.run, section, {}, ORIGIN)
        select.select([alive], [], [])
        assert os.read(alive, 100) == b"started"
        plugin.stop()
        assert os.read(alive, 100) == b""
        with pytest.raises(ConfigurationError, match="exit code -9"):
            running.result()


def test_a_stopped_plugin_does_not_start_again(hanging: tuple[dict[str, Any], int]) -> None:
    plugin = ExecPlugin(timeout_seconds=60.0)
    plugin.stop()
    with pytest.raises(ConfigurationError, match="exit code -9"):
        plugin.run(hanging[0], {}, ORIGIN)
