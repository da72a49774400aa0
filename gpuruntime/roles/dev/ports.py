"""Ports for dev: the usual ones, or others if another program listens there."""

import itertools
import json
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import attrs
import structlog

from gpuruntime.embedded.processes.programs import LOOPBACK
from gpuruntime.settings.schema import Settings

# The ports of the api and of its operations listener; a second dev takes the next pair.
USUAL: Final = {("listen",): 8080, ("operations", "listen"): 8081}
MOST_PAIRS: Final = 50
PORTS: Final = "ports.json"

log = structlog.get_logger()


def free_addresses() -> Mapping[tuple[str, ...], str]:
    """Return addresses on free ports by configuration key, for keys that are not set."""
    for pair in itertools.islice(itertools.count(0, 2), MOST_PAIRS):
        ports = {key: port + pair for key, port in USUAL.items()}
        if all(is_free(port) for port in ports.values()):
            return {key: f"{LOOPBACK}:{port}" for key, port in ports.items()}
    return dict.fromkeys(USUAL, f"{LOOPBACK}:0")


def log_others(settings: Settings, addresses: Mapping[tuple[str, ...], str]) -> None:
    """Log which usual port is taken, if the settings have the free address instead."""
    taken = {("listen",): settings.listen, ("operations", "listen"): settings.operations.listen}
    for key, address in addresses.items():
        usual = f"{LOOPBACK}:{USUAL[key]}"
        if address not in (usual, f"{LOOPBACK}:0") and str(taken[key]) == address:
            name = ".".join(key)
            log.info("port is in use, another one is taken", key=name, usual=usual, here=address)


def is_free(port: int) -> bool:
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((LOOPBACK, port))
        except OSError:
            return False
    return True


@attrs.frozen(slots=True)
class KeptPorts:
    """The ports of a state folder, so that its addresses stay the same over restarts."""

    folder: Path

    def get(self, name: str) -> int:
        """Return the port of the last run if it is free, else 0."""
        port = self._read().get(name, 0)
        return port if port and is_free(port) else 0

    def keep(self, name: str, port: int) -> bool:
        """Keep the port for the next run, and return whether the last run had another one."""
        ports = self._read()
        (self.folder / PORTS).write_text(json.dumps({**ports, name: port}), encoding="utf-8")
        return ports.get(name, port) != port

    def _read(self) -> dict[str, int]:
        try:
            ports: dict[str, int] = json.loads((self.folder / PORTS).read_bytes())
        except (OSError, ValueError):
            return {}
        return ports
