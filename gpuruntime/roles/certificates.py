"""The certificate that the api shows: from files, read again whenever they change."""

import asyncio
import hashlib
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import structlog

from gpuruntime.errors import ConfigurationError
from gpuruntime.settings.access import TlsSettings

LOOK_SECONDS: Final = 10.0

log = structlog.get_logger()


class Certificate:
    """Raises ConfigurationError where the files of the start do not make one.

    Connections that stand keep the one that they began with.
    """

    def __init__(self, tls: TlsSettings) -> None:
        self._tls = tls
        self._digest = self._read()
        self._fault = ""
        self.context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self._load(self.context)

    async def run(self) -> None:
        """For ever: what does not make a certificate is told of, and the last one shown on."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            try:
                self._look()
            except ConfigurationError as error:
                if str(error) != self._fault:
                    log.warning("certificate is broken, the last one holds", reason=str(error))
                self._fault = str(error)
            else:
                self._fault = ""

    def _look(self) -> None:
        """Tried apart first: a context that was given half of a pair could show neither."""
        digest = self._read()
        if digest == self._digest:
            return
        self._load(ssl.create_default_context(ssl.Purpose.CLIENT_AUTH))
        self._load(self.context)
        self._digest = digest
        log.info("certificate changed")

    def _read(self) -> bytes:
        digest = hashlib.sha256()
        for file in (self._tls.certificateFile, self._tls.keyFile):
            try:
                digest.update(hashlib.sha256(Path(file).read_bytes()).digest())
            except OSError as error:
                raise ConfigurationError(f"tls: {file}: {error.strerror}") from error
        return digest.digest()

    def _load(self, context: ssl.SSLContext) -> None:
        """A key with a password is refused: nobody is there to be asked for it."""
        tls = self._tls
        try:
            context.load_cert_chain(tls.certificateFile, tls.keyFile, password="")
        except (OSError, ValueError) as error:
            raise ConfigurationError(
                f"tls: {tls.certificateFile} and {tls.keyFile} are no certificate in PEM with "
                f"its key without a password: {error}"
            ) from error


def demand_certificate(tls: TlsSettings) -> None:
    """Before anything starts: raises ConfigurationError where files are given and no good."""
    if tls.certificateFile:
        Certificate(tls)


@asynccontextmanager
async def context_of(tls: TlsSettings) -> AsyncIterator[ssl.SSLContext | None]:
    """None without files. It follows them until the block ends."""
    if not tls.certificateFile:
        yield None
        return
    certificate = Certificate(tls)
    async with asyncio.TaskGroup() as tasks:
        following = tasks.create_task(certificate.run(), name="certificate")
        yield certificate.context
        following.cancel()
