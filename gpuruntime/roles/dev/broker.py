"""The queue of functions beside dev: the packaged nats-server on a free port of this machine."""

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
# The stream of invocations sets a gibibyte of it aside.
MOST_STORED: Final = "4GB"
MOST_IN_MEMORY: Final = "256MB"
_LOOK_AGAIN_SECONDS: Final = 0.02
_MOST_WORDS: Final = 1_000


class BrokerEndedError(GpuRuntimeError):
    """What it kept is gone with it."""


@attrs.frozen(kw_only=True, slots=True)
class Broker:
    url: str
    process: Process
    log: Path

    async def run(self) -> None:
        code = await self.process.ended()
        raise BrokerEndedError(f"nats-server ended with {code}: {_words(self.log)}")


@asynccontextmanager
async def broker(program: str, folder: Path) -> AsyncIterator[Broker]:
    """Its data is in the folder, which goes with it even where nobody is left to remove it."""
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
    """It tells its port in a file; raises ConfigurationError where it does not."""
    file = folder / f"nats-server_{process.pid}.ports"
    url = ""
    with suppress(TimeoutError):
        async with asyncio.timeout(START_SECONDS):
            while not (url := _told(file)) and not process.has_ended:  # noqa: ASYNC110 - a file
                await asyncio.sleep(_LOOK_AGAIN_SECONDS)
    if not url:
        raise ConfigurationError(
            f"nats-server does not start, and functions need it: {_words(log)}; "
            "name another server in nats.url, or take this one from the PATH"
        )
    return url


def _told(file: Path) -> str:
    """Nothing, as long as it is not written to its end."""
    try:
        told: dict[str, list[str]] = json.loads(file.read_bytes())
    except (OSError, ValueError):
        return ""
    return next(iter(told.get("nats", ())), "")


def _words(log: Path) -> str:
    return log.read_text(errors="replace")[-_MOST_WORDS:].strip()
