"""Keep-alive connections without a client library: the least that a request can cost."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import attrs

from gpuruntime.kube.transport import JSON

USER_AGENT = "bench"


@attrs.frozen(slots=True)
class Address:
    """A URL with the token, TLS context and host that its server requires."""

    url: str
    token: str = ""
    tls: ssl.SSLContext | None = None
    host: str = ""

    @property
    def headers(self) -> dict[str, str]:
        headers = {"Host": self.host or urlsplit(self.url).netloc, "User-Agent": USER_AGENT}
        return headers | ({"Authorization": f"Bearer {self.token}"} if self.token else {})


@attrs.frozen(slots=True)
class Answer:
    status: int
    body: bytes

    @property
    def document(self) -> Any:
        return json.loads(self.body)


class Connection:
    """A connection that sends one request at a time; only the first line of the head varies."""

    def __init__(
        self, address: Address, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._head = "\r\n".join(f"{name}: {value}" for name, value in address.headers.items())

    async def send(
        self, method: str, path: str, body: bytes = b"", content_type: str = JSON
    ) -> Answer:
        status, headers = await self._head_of(method, path, body, content_type)
        return Answer(status, await self._body(headers))

    async def stream(self, path: str) -> AsyncIterator[Any]:
        """Yield the documents of an answer that does not end, one from each line."""
        status, headers = await self._head_of("GET", path)
        assert (status, headers["transfer-encoding"]) == (200, "chunked"), (status, headers)
        rest = b""
        while chunk := await self._chunk():
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                yield json.loads(line)

    async def _head_of(
        self, method: str, path: str, body: bytes = b"", content_type: str = JSON
    ) -> tuple[int, dict[str, str]]:
        """Send a request, and return the status and the headers of its answer."""
        head = f"{method} {path} HTTP/1.1\r\n{self._head}\r\n"
        if body:
            head += f"Content-Type: {content_type}\r\nContent-Length: {len(body)}\r\n"
        self._writer.write(head.encode() + b"\r\n" + body)
        status_line, *lines = (await self._reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        headers = dict(line.lower().split(": ", 1) for line in lines if line)
        return int(status_line.split(" ")[1]), headers

    async def _body(self, headers: dict[str, str]) -> bytes:
        if headers.get("transfer-encoding") != "chunked":
            return await self._reader.readexactly(int(headers.get("content-length", "0")))
        body = b""
        while chunk := await self._chunk():
            body += chunk
        return body

    async def _chunk(self) -> bytes:
        """Return the next chunk, or nothing at the end of the body."""
        size = int(await self._reader.readuntil(b"\r\n"), 16)
        return (await self._reader.readexactly(size + 2))[:-2]

    def close(self) -> None:
        self._writer.close()


@asynccontextmanager
async def connections(address: Address, count: int) -> AsyncIterator[list[Connection]]:
    target = urlsplit(address.url)
    async with AsyncExitStack() as stack:
        opened = []
        for _ in range(count):
            streams = await asyncio.open_connection(
                target.hostname, target.port, ssl=address.tls, limit=2**20
            )
            opened.append(Connection(address, *streams))
            stack.callback(opened[-1].close)
        yield opened
