"""The api's certificate is read from files, again whenever they change."""

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
    """Raise ConfigurationError if the files hold no certificate at the start.

    Open connections keep the certificate that they began with.
    """

    def __init__(self, tls: TlsSettings) -> None:
        self._tls = tls
        self._digest = self._read()
        self._fault = ""
        self.context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self._load(self.context)

    async def run(self) -> None:
        """Reload the certificate when its files change.

        If they are invalid, log it and keep the last one.
        """
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            try:
                self._reload()
            except ConfigurationError as error:
                if str(error) != self._fault:
                    log.warning(
                        "certificate is invalid, the last one stays in use", reason=str(error)
                    )
                self._fault = str(error)
            else:
                self._fault = ""

    def _reload(self) -> None:
        """Load changed files into a trial context first: half of a pair would spoil ours."""
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
        """Load the pair. A key with a password is rejected, since there is no prompt for it."""
        tls = self._tls
        try:
            context.load_cert_chain(tls.certificateFile, tls.keyFile, password="")
        except (OSError, ValueError) as error:
            raise ConfigurationError(
                f"tls: {tls.certificateFile} and {tls.keyFile} are not a PEM certificate with "
                f"its key without a password: {error}"
            ) from error


def demand_certificate(tls: TlsSettings) -> None:
    """Raise ConfigurationError if files are given and hold no certificate."""
    if tls.certificateFile:
        Certificate(tls)


@asynccontextmanager
async def context_of(tls: TlsSettings) -> AsyncIterator[ssl.SSLContext | None]:
    """Yield a context that follows the files until the block ends, or None without files."""
    if not tls.certificateFile:
        yield None
        return
    certificate = Certificate(tls)
    async with asyncio.TaskGroup() as tasks:
        following = tasks.create_task(certificate.run(), name="certificate")
        yield certificate.context
        following.cancel()
