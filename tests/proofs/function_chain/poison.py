"""A framework that answers each call as its payload says, mostly badly.

As a program it is `poison.py LEDGER`, with one line of the ledger for each start of an attempt.
"""

import asyncio
import json
import os
import sys
from typing import Any, Final

from gpuruntime.framework.mounts import place_of
from gpuruntime.framework.server import DEFAULTS

FIVE_MEGABYTES: Final = 5_000_000
HEAD: Final = (
    "HTTP/1.1 {} x\r\nContent-Type: {}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n"
)


def answer(body: bytes, *, status: int = 200, kind: str = "application/json") -> bytes:
    return HEAD.format(status, kind, len(body)).encode() + body


def told(**members: Any) -> bytes:
    return answer(json.dumps({"statusCode": 200, **members}).encode())


# The bytes sent for each wish; an empty value sends nothing at all.
ANSWERS: Final = {
    "good": told(body="good"),
    "garbage": b"\x00\xff this is no HTTP \r\n\r\n",
    "no_json": answer(b"{'single': quotes}"),
    "no_answer": answer(b'{"statusCode": "many"}'),
    "close": b"",
    "status_500": answer(b"oops", status=500),
    "status_400": answer(b"never", status=400),
    "told_500": told(statusCode=500, error="no good"),
    "long": told(body="x" * FIVE_MEGABYTES),
    "wrong_type": answer(b"<html></html>", kind="text/html"),
    "cut_off": told(body="x" * 10_000)[:5_000],
}


class Poison:
    def __init__(self, ledger: str) -> None:
        self._file = os.open(ledger, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)

    async def serve(self) -> None:
        path = place_of(DEFAULTS.socketPath)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        server = await asyncio.start_unix_server(self._meet, path)
        async with server:
            await server.serve_forever()

    async def _meet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one call per connection, as the worker opens them."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        if head.startswith("get "):
            writer.write(answer(b"ok", kind="text/plain"))
        else:
            length = int(head.partition("content-length: ")[2].split("\r\n")[0])
            call = json.loads(await reader.readexactly(length))
            line = f"{call['invocationID']} {call['attempt']} {call['workerName']} 0\n"
            os.write(self._file, line.encode())
            if call["payload"] == "never":
                await reader.read()  # until the worker gives up
            else:
                writer.write(ANSWERS[call["payload"]])
        writer.close()


if __name__ == "__main__":
    asyncio.run(Poison(sys.argv[1]).serve())
