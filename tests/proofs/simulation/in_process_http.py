"""Requests to an aiohttp application and its answers, without a socket."""

import asyncio
import json
from types import SimpleNamespace
from typing import Any, Final

import attrs
from aiohttp import HttpVersion11, StreamReader, web
from aiohttp.base_protocol import BaseProtocol
from aiohttp.http_parser import RawRequestMessage
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

# A connection whose client never disconnects.
CONNECTED: Final = SimpleNamespace(is_closing=lambda: False, get_extra_info=lambda *_: None)
NO_CONNECTION: Final = SimpleNamespace(
    transport=CONNECTED, ssl_context=None, peername=None, sockname=None
)


@attrs.frozen(slots=True)
class Answer:
    status: int
    data: Any = None
    code: str = ""

    def __str__(self) -> str:
        return f"{self.status} {self.code}".rstrip()


async def handle(app: web.Application, method: str, path: str, body: object = None) -> Answer:
    """Return the answer of the application; await this in a separate task, as a server does."""
    response = await app._handle(_request(method, path, body))
    assert isinstance(response, web.Response), f"{method} {path} is answered bit by bit"
    assert response.body is None or isinstance(response.body, bytes)
    document = json.loads(response.body) if response.body else {}
    error = document.get("error", {})
    return Answer(response.status, document.get("data"), error.get("code", ""))


def _request(method: str, path: str, body: object) -> web.Request:
    loop = asyncio.get_running_loop()
    data = b"" if body is None else json.dumps(body).encode()
    given = {"Host": "api", "Content-Length": str(len(data))}
    if body is not None:
        given["Content-Type"] = "application/json"
    headers = CIMultiDictProxy(CIMultiDict(given))
    raw = tuple((name.encode(), value.encode()) for name, value in given.items())
    message = RawRequestMessage(
        method, path, HttpVersion11, headers, raw, False, None, False, False, URL(path)
    )
    reader = StreamReader(BaseProtocol(loop), 2**16, loop=loop)
    reader.feed_data(data)
    reader.feed_eof()
    task = asyncio.current_task()
    assert task is not None
    return web.Request(
        message,
        reader,
        NO_CONNECTION,  # type: ignore[arg-type]  # only names of peers are read from it
        SimpleNamespace(),  # type: ignore[arg-type]  # nothing is written to it
        task,
        loop,
        client_max_size=2**20,
    )
