"""The broker of dev: the packaged nats-server on a free port of this machine."""

import asyncio
import json
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final

import attrs

from gpuruntime.embedded.processes.guarded_processes import Process, guarded
from gpuruntime.embedded.processes.programs import LOOPBACK
from gpuruntime.errors import ConfigurationError, GpuRuntimeError
from gpuruntime.kube.client import Client
from gpuruntime.models.kinds.labels import APP_NAME, MANAGED_BY, MANAGER, UNIT, UNIT_APP
from gpuruntime.models.kubernetes.pods import PODS
from gpuruntime.models.kubernetes.secrets import SECRETS
from gpuruntime.roles.dev.ports import KeptPorts

START_SECONDS: Final = 20.0
STOP_SECONDS: Final = 5.0
# The stream of invocations reserves one gibibyte of it.
MOST_STORED: Final = "4GB"
MOST_IN_MEMORY: Final = "256MB"
_LOOK_AGAIN_SECONDS: Final = 0.02
_MOST_WORDS: Final = 1_000


class BrokerEndedError(GpuRuntimeError):
    """The broker has ended, and its data is lost."""


@attrs.frozen(kw_only=True, slots=True)
class Broker:
    """`has_moved` says that it listens at another port than in the last run."""

    url: str
    process: Process
    log: Path
    has_moved: bool

    async def run(self) -> None:
        code = await self.process.ended()
        raise BrokerEndedError(f"nats-server ended with {code}: {_tail(self.log)}")


@asynccontextmanager
async def broker(program: str, folder: Path, *, is_kept: bool = False) -> AsyncIterator[Broker]:
    """Run a broker with its data in the folder, which is removed even if dev is killed.

    If the folder `is_kept`, its data stays, and so does its port while no other program has it:
    workers that are restored know the broker by its port.
    """
    config, log, ports = folder / "nats.conf", folder / "nats.log", KeptPorts(folder)
    _clear(folder, log)
    config.write_text("\n".join(_configuration(folder, ports.get("nats"))), encoding="utf-8")
    async with guarded(*() if is_kept else (folder,)) as processes:
        argv = [program, "-c", str(config), "--ports_file_dir", str(folder)]
        process = await processes.start(argv, log=log)
        try:
            url = await _url(process, folder, log)
            has_moved = ports.keep("nats", int(url.rpartition(":")[2]))
            yield Broker(url=url, process=process, log=log, has_moved=has_moved)
        finally:
            await _stop(process)


def _clear(folder: Path, log: Path) -> None:
    """Remove what a broker of an earlier run has left beside its data."""
    for file in (log, *folder.glob("nats-server_*.ports")):
        file.unlink(missing_ok=True)


async def end_restored_workers(client: Client, namespace: str) -> None:
    """Delete the Secrets and Pods of workers, which name a broker that has moved.

    The manager writes such a Secret again when it starts, and the new Pod waits for it. Secrets
    of tenants are managed by us as well, but belong to no unit.
    """
    ours = f"{MANAGED_BY}={MANAGER},{APP_NAME}={UNIT_APP},{UNIT}"
    secrets = await client.list_page(SECRETS, namespace=namespace, label_selector=ours, limit=0)
    for secret in secrets.items:
        unit = f"{UNIT}={secret.metadata.labels[UNIT]}"
        pods = await client.list_page(PODS, namespace=namespace, label_selector=unit, limit=0)
        await client.delete(SECRETS, secret.metadata.key)
        for pod in pods.items:
            await client.delete(PODS, pod.metadata.key, grace_seconds=0)


async def _stop(process: Process) -> None:
    """Let the broker write its data to the disk, and kill it if that takes too long."""
    process.send(signal.SIGTERM)
    with suppress(TimeoutError):
        async with asyncio.timeout(STOP_SECONDS):
            await process.ended()
            return
    await process.kill()


def _configuration(folder: Path, port: int) -> Iterator[str]:
    yield f'listen: "{LOOPBACK}:{port or -1}"'
    yield "max_payload: 2MB"
    yield (
        f'jetstream {{ store_dir: "{folder}/nats", max_file_store: {MOST_STORED}, '
        f"max_memory_store: {MOST_IN_MEMORY} }}"
    )


async def _url(process: Process, folder: Path, log: Path) -> str:
    """Return the URL in the broker's port file. Raise ConfigurationError if it does not start."""
    file = folder / f"nats-server_{process.pid}.ports"
    url = ""
    with suppress(TimeoutError):
        async with asyncio.timeout(START_SECONDS):
            while not (url := _url_in(file)) and not process.has_ended:  # noqa: ASYNC110 - a file
                await asyncio.sleep(_LOOK_AGAIN_SECONDS)
    if not url:
        raise ConfigurationError(
            f"nats-server does not start, but functions need it: {_tail(log)}; "
            "set nats.url to another server, or remove this one from the PATH"
        )
    return url


def _url_in(file: Path) -> str:
    """Return the URL, or nothing while the file is incomplete."""
    try:
        ports: dict[str, list[str]] = json.loads(file.read_bytes())
    except (OSError, ValueError):
        return ""
    return next(iter(ports.get("nats", ())), "")


def _tail(log: Path) -> str:
    return log.read_text(errors="replace")[-_MOST_WORDS:].strip()
