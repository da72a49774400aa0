"""The broker of dev: the packaged nats-server on a free port of this machine."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final

import attrs

from gpuruntime.embedded.processes.guarded_processes import Process, guarded
from gpuruntime.embedded.processes.programs import LOOPBACK
from gpuruntime.errors import ConfigurationError, GpuRuntimeError

START_SECONDS: Final = 20.0
# The stream of invocations reserves one gibibyte of it.
MOST_STORED: Final = "4GB"
MOST_IN_MEMORY: Final = "256MB"
_LOOK_AGAIN_SECONDS: Final = 0.02
_MOST_WORDS: Final = 1_000


class BrokerEndedError(GpuRuntimeError):
    """The broker has ended, and its data is lost."""


@attrs.frozen(kw_only=True, slots=True)
class Broker:
    url: str
    process: Process
    log: Path

    async def run(self) -> None:
        code = await self.process.ended()
        raise BrokerEndedError(f"nats-server ended with {code}: {_tail(self.log)}")


@asynccontextmanager
async def broker(program: str, folder: Path) -> AsyncIterator[Broker]:
    """Run a broker with its data in the folder, which is removed even if dev is killed."""
    config, log = folder / "nats.conf", folder / "nats.log"
    config.write_text("\n".join(_configuration(folder)), encoding="utf-8")
    async with guarded(folder) as processes:
        argv = [program, "-c", str(config), "--ports_file_dir", str(folder)]
        process = await processes.start(argv, log=log)
        try:
            yield Broker(url=await _url(process, folder, log), process=process, log=log)
        finally:
            await process.kill()


def _configuration(folder: Path) -> Iterator[str]:
    yield f'listen: "{LOOPBACK}:-1"'
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
