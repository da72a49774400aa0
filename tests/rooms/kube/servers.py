"""Real HTTP servers and proxies on loopback, and their certificates."""

import asyncio
import ssl
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import attrs
from aiohttp import web

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def serving(handler: Handler, tls: ssl.SSLContext | None = None) -> AsyncIterator[str]:
    """Yield the server's address without a trailing slash."""
    runner = web.ServerRunner(web.Server(handler, handler_cancellation=True), shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
    await site.start()
    port = runner.addresses[0][1]
    try:
        yield f"{'https' if tls else 'http'}://127.0.0.1:{port}"
    finally:
        await runner.cleanup()


@attrs.frozen
class Certificate:
    file: Path
    key: Path


class Authority:
    """A certificate authority that the openssl program creates in a test's directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.certificate = self._files("authority")
        _openssl(
            *("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"),
            *("-subj", "/CN=authority", "-days", "2"),
            *("-keyout", self.certificate.key, "-out", self.certificate.file),
        )

    def issue(self, name: str, *, host: str = "") -> Certificate:
        """Issue a certificate: for a server with its host's name, for a client without one."""
        certificate = self._files(name)
        alternative = f"subjectAltName=DNS:{host}" if host else "subjectAltName=DNS:nobody"
        _openssl(
            *("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"),
            *("-subj", f"/CN={name}", "-days", "2", "-addext", alternative),
            *("-addext", "basicConstraints=critical,CA:FALSE"),
            *("-CA", self.certificate.file, "-CAkey", self.certificate.key),
            *("-keyout", certificate.key, "-out", certificate.file),
        )
        return certificate

    def server_context(self, host: str, *, asks_for_clients: bool = False) -> ssl.SSLContext:
        certificate = self.issue(f"server-{host}", host=host)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate.file, certificate.key)
        if asks_for_clients:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(self.certificate.file)
        return context

    def _files(self, name: str) -> Certificate:
        return Certificate(self._directory / f"{name}.pem", self._directory / f"{name}.key")


def common_name(request: web.BaseRequest) -> str:
    """Return the common name of the client's certificate."""
    peer = request.get_extra_info("peercert")
    return next(str(value) for ((name, value),) in peer["subject"] if name == "commonName")


@asynccontextmanager
async def proxying(upstream: str) -> AsyncIterator[tuple[str, list[str]]]:
    """Run a proxy that tunnels every CONNECT to one server. Yield its address and its requests."""
    host, port = upstream.split("//")[1].split(":")
    connects: list[str] = []

    async def tunnel(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connects.append((await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")[0])
        back, forth = await asyncio.open_connection(host, int(port))
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        async with asyncio.TaskGroup() as group:
            group.create_task(_pump(reader, forth))
            group.create_task(_pump(back, writer))

    server = await asyncio.start_server(tunnel, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", connects


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65_536):
        writer.write(data)
    writer.close()


def _openssl(*arguments: object) -> None:
    subprocess.run(
        ["openssl", *(str(argument) for argument in arguments)], check=True, capture_output=True
    )
