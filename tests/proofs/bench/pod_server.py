"""A server process that does nothing but send Pods: its answers are ready before it listens.

    python -m tests.proofs.bench.pod_server PODS EVENTS RATE

Lists are paged as an API server pages them; a watch gets EVENTS changes at RATE a second (0: as
fast as they can be read), each with the moment of its sending, and then silence.
"""

import asyncio
import sys
import time
from urllib.parse import parse_qs, urlsplit

from gpuruntime.models.encoding import codec
from gpuruntime.models.encoding.json import JsonObject
from tests.proofs.bench.pods import pod_json

# Where the moment of sending stands in each event, for whoever measures how long it took.
SENT_AT = "sent-at"
MARK = b"@@@@@@@@@@@@@@@@@@@@"
BURST_SECONDS = 0.005


class PodServer:
    def __init__(self, pods: int, events: int, rate: float) -> None:
        self._items = [codec.encode(pod_json(index, index + 1)) for index in range(pods)]
        self._events = [self._event(index, pods) for index in range(min(events, 2_000))]
        self._count = events
        self._rate = rate

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                path = head.split(b" ", 2)[1].decode()
                query = parse_qs(urlsplit(path).query)
                if "watch" in query:
                    await self._watch(writer)
                    return
                await self._page(writer, query)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def _page(self, writer: asyncio.StreamWriter, query: dict[str, list[str]]) -> None:
        start = int(query.get("continue", ["0"])[0])
        end = min(start + int(query.get("limit", ["1000000"])[0]), len(self._items))
        metadata: JsonObject = {"resourceVersion": str(len(self._items))}
        if end < len(self._items):
            metadata["continue"] = str(end)
        head: JsonObject = {"kind": "PodList", "apiVersion": "v1", "metadata": metadata}
        items = b",".join(self._items[start:end])
        body = codec.encode(head)[:-1] + b',"items":[' + items + b"]}"
        writer.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
            b"Content-Length: %d\r\n\r\n" % len(body)
        )
        writer.write(body)
        await writer.drain()

    async def _watch(self, writer: asyncio.StreamWriter) -> None:
        writer.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
            b"Transfer-Encoding: chunked\r\n\r\n"
        )
        started = time.monotonic()
        for number in range(self._count):
            if self._rate:
                early = started + number / self._rate - time.monotonic()
                if early > BURST_SECONDS / 10:
                    await asyncio.sleep(early)
            body = self._stamped(number)
            writer.write(b"%x\r\n%b\r\n" % (len(body), body))
            await writer.drain()
        await asyncio.Event().wait()

    def _stamped(self, number: int) -> bytes:
        """Each event is news: it has a version of its own."""
        version = str(len(self._items) + number + 1).encode()
        event = self._events[number % len(self._events)]
        stamped = event.replace(MARK, f"{time.monotonic():020.9f}".encode(), 1)
        return stamped.replace(b"#VERSION#", version, 1)

    def _event(self, index: int, pods: int) -> bytes:
        pod = pod_json(index % max(pods, 1), 1)
        metadata = dict(pod["metadata"])  # type: ignore[arg-type]  # made by us
        metadata["resourceVersion"] = "#VERSION#"
        metadata["annotations"] = {SENT_AT: MARK.decode()}
        body = {"apiVersion": "v1", "kind": "Pod", **pod, "metadata": metadata}
        return codec.encode({"type": "MODIFIED", "object": body}) + b"\n"


async def main(pods: int, events: int, rate: float) -> None:
    server = PodServer(pods, events, rate)
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0, limit=2**20)
    sys.stdout.write(f"{listening.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(listening.serve_forever(), name="serve")


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])))
