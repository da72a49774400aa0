"""Logs of containers that run as processes; all other logs come from another source."""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Final, TypeAlias

from gpuruntime.embedded.apiserver.pod_logs import LogRequest, PodLogs

POLL_SECONDS: Final = 0.5
_PIECE: Final = 64 * 1024

# A file, and whether it may still grow.
LogFile: TypeAlias = tuple[Path, Callable[[], bool]]


class ProcessLogs:
    def __init__(self, files: Callable[[LogRequest], LogFile | None], others: PodLogs) -> None:
        self._files = files
        self._others = others

    def read(self, request: LogRequest) -> bytes:
        found = self._files(request)
        if found is None or not found[0].exists():
            return self._others.read(request)
        return _tail(found[0].read_bytes(), request.tail)

    async def follow(self, request: LogRequest) -> AsyncIterator[bytes]:
        found = self._files(request)
        if found is None or not found[0].exists():
            async for chunk in self._others.follow(request):
                yield chunk
            return
        path, may_grow = found
        with path.open("rb") as file:
            yield _tail(file.read(), request.tail)
            is_growing = True
            while is_growing:
                # Before reading, so that everything up to the end is read.
                is_growing = may_grow()
                while piece := file.read(_PIECE):
                    yield piece
                await asyncio.sleep(POLL_SECONDS if is_growing else 0)


def _tail(content: bytes, most: int | None) -> bytes:
    if most is None:
        return content
    lines = content.splitlines(keepends=True)
    return b"".join(lines[max(0, len(lines) - most) :])
