"""The gateway of dev: at `*.localhost`, which browsers resolve to this machine, with own keys."""

import base64
import itertools
import os
import socket
from pathlib import Path
from secrets import token_bytes
from typing import Final

import attrs
import structlog
import yaml

from gpuruntime.embedded.processes.programs import LOOPBACK
from gpuruntime.roles.dev.ports import MOST_PAIRS, KeptPorts, is_free
from gpuruntime.roles.ssh import has_ssh, write_host_key_once
from gpuruntime.settings.gateway import GatewaySshSettings
from gpuruntime.settings.schema import Settings
from gpuruntime.settings.values import Address

KEYS: Final = "tickets.yaml"
HOST_KEY: Final = "ssh_host_key"
SSH_PORT: Final = 2222
_SECRET_BYTES: Final = 32

log = structlog.get_logger()


def with_gateway(settings: Settings, folder: Path) -> Settings:
    """Return the settings with a gateway on this machine, unless they name one already."""
    given = settings.gateway
    if given.publicURL:
        return settings
    port = _port(settings, KeptPorts(folder))
    keys = folder / KEYS
    if not keys.exists():
        _write_keys(keys)
    here = attrs.evolve(
        given,
        ssh=_with_ssh(settings, folder),
        listen=Address(LOOPBACK, port),
        activityListen=Address(LOOPBACK, 0),
        publicURL=f"http://*.localhost:{port}",
        plainHosts=True,
        keyFile=str(keys),
    )
    return attrs.evolve(settings, gateway=here)


def _with_ssh(settings: Settings, folder: Path) -> GatewaySshSettings:
    """Return the settings of SSH with a key and a port of this machine, if it can be served."""
    given = settings.gateway.ssh
    if given.hostKeyFile or not (has_ssh() and settings.gateway.exec):
        return given
    key = folder / HOST_KEY
    write_host_key_once(key)
    kept = KeptPorts(folder)
    near = range(SSH_PORT, SSH_PORT + MOST_PAIRS) if settings.listen.port else ()
    port = kept.get("ssh") or next(filter(is_free, near), 0) or _any_port()
    kept.keep("ssh", port)
    return attrs.evolve(
        given,
        listen=Address(LOOPBACK, port),
        host=f"localhost:{port}",
        hostKeyFile=str(key),
    )


def _port(settings: Settings, kept: KeptPorts) -> int:
    """Return the last run's port, the configured one or the next free one.

    If the api listens anywhere, the gateway does.
    """
    usual = settings.gateway.listen.port if settings.listen.port else 0
    near = itertools.islice(itertools.count(usual), MOST_PAIRS) if usual else ()
    port = kept.get("gateway") or next(filter(is_free, near), 0) or _any_port()
    if port not in (usual, kept.get("gateway")) and usual:
        log.info("port is in use, another one is taken", key="gateway.listen", here=port)
    kept.keep("gateway", port)
    return port


def _any_port() -> int:
    with socket.create_server((LOOPBACK, 0)) as listener:
        return int(listener.getsockname()[1])


def _write_keys(path: Path) -> None:
    secret = base64.b64encode(token_bytes(_SECRET_BYTES)).decode()
    text = yaml.safe_dump({"keys": [{"id": "dev", "secret": secret}]})
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
