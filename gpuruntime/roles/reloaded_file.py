"""A file that is read again when it changes; while it is invalid, the last good one stays."""

import asyncio
import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Final, Generic, TypeVar

import structlog

from gpuruntime.errors import ConfigurationError

LOOK_SECONDS: Final = 5.0
ValueT = TypeVar("ValueT")

log = structlog.get_logger()


class MissingFileError(ConfigurationError):
    """There is no file at the path; one that cannot be read is another fault."""


class ReloadedFile(Generic[ValueT]):
    """Raise ConfigurationError if the file is invalid at the start.

    `parse` raises ConfigurationError, too; `what` names the file in messages. With `absent` the
    file may be missing at the start, and has that value until it is there.
    """

    def __init__(
        self,
        path: str,
        parse: Callable[[bytes], ValueT],
        *,
        what: str,
        absent: Callable[[], ValueT] | None = None,
    ) -> None:
        self._path = path
        self._parse = parse
        self._what = what
        self._fault = ""
        try:
            content = read_file(path, what)
        except MissingFileError:
            if absent is None:
                raise
            self._digest = b""
            self._value = absent()
            return
        self._digest = _digest_of(content)
        self._value = parse(content)

    @property
    def value(self) -> ValueT:
        return self._value

    @property
    def is_broken(self) -> bool:
        return bool(self._fault)

    async def run(self, report: Callable[[], None]) -> None:
        """Reload the file when it changes, and call `report` before each look at it."""
        while True:
            report()
            await asyncio.sleep(LOOK_SECONDS)
            await self._reload()

    async def _reload(self) -> None:
        """Read in a thread, and parse only changed content: a large file takes seconds."""
        digest = b""
        try:
            content = await asyncio.to_thread(read_file, self._path, self._what)
            digest = _digest_of(content)
            if digest == self._digest:
                return
            value = await asyncio.to_thread(self._parse, content)
        except ConfigurationError as error:
            if isinstance(error, MissingFileError) and not self._digest:
                return
            if str(error) != self._fault:
                log.warning(
                    "file is invalid, the last good one stays in use",
                    file=self._what,
                    reason=str(error),
                )
            self._fault = str(error)
        else:
            self._fault = ""
            if value != self._value:
                self._value = value
                log.info("file changed", file=self._what)
        self._digest = digest


def read_file(path: str, what: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except FileNotFoundError as error:
        raise MissingFileError(f"{what} {path}: {error.strerror}") from error
    except OSError as error:
        raise ConfigurationError(f"{what} {path}: {error.strerror}") from error


def _digest_of(content: bytes) -> bytes:
    return hashlib.sha256(content).digest()
