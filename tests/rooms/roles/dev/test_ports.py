"""Ports of dev: the usual ones if they are free, else the next ones, and those of the last run."""

import socket
from pathlib import Path

import pytest

from gpuruntime.roles.dev import ports
from gpuruntime.roles.dev.ports import KeptPorts, free_addresses, is_free

LISTEN, OPERATIONS = ("listen",), ("operations", "listen")


@pytest.fixture
def free_pair(monkeypatch: pytest.MonkeyPatch) -> int:
    """Return a port that is free with the next three; the usual ports begin there."""
    first = next(
        port for port in range(32_100, 32_700, 4) if all(is_free(port + n) for n in range(4))
    )
    monkeypatch.setattr(ports, "USUAL", {LISTEN: first, OPERATIONS: first + 1})
    return first


@pytest.mark.parametrize("taken", [0, 1], ids=["the api's port", "the operations port"])
def test_a_port_in_use_moves_both_to_the_next_pair(free_pair: int, taken: int) -> None:
    usual = {LISTEN: f"127.0.0.1:{free_pair}", OPERATIONS: f"127.0.0.1:{free_pair + 1}"}
    assert free_addresses() == usual
    with socket.create_server(("127.0.0.1", free_pair + taken)):
        assert free_addresses() == {
            LISTEN: f"127.0.0.1:{free_pair + 2}",
            OPERATIONS: f"127.0.0.1:{free_pair + 3}",
        }


def test_a_kept_port_is_used_again_while_it_is_free(free_pair: int, tmp_path: Path) -> None:
    kept = KeptPorts(tmp_path)
    assert kept.get("nats") == 0
    assert not kept.keep("nats", free_pair)
    assert not kept.keep("cluster", free_pair + 1)
    assert KeptPorts(tmp_path).get("nats") == free_pair
    with socket.create_server(("127.0.0.1", free_pair)):
        assert kept.get("nats") == 0
    assert kept.keep("nats", free_pair + 2), "it has moved"
    assert kept.get("cluster") == free_pair + 1
