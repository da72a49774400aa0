"""The hops of an invocation and nothing else: the baseline for the product's chain.

As a program it is one of two processes. `front URL` answers calls over HTTP; `worker URL [SOCKET]`
takes them from the queue. Neither checks, limits or retries anything.
"""

import asyncio
import json
import sys
from itertools import count
from typing import Any

import aiohttp
import nats
from aiohttp import web
from nats.aio.msg import Msg
from nats.js import JetStreamContext
from nats.js.api import ConsumerConfig, StreamConfig
from nats.js.errors import NotFoundError

EXPECTED = "Nats-Expected-Last-Subject-Sequence"
AT_ONCE = 64


async def connect(url: str) -> JetStreamContext:
    """Connect, and create the streams and the consumer unless they exist."""
    jetstream = (await nats.connect(url)).jetstream()
    try:
        await jetstream.stream_info("BARE_QUEUE")
    except NotFoundError:
        await jetstream.add_stream(
            StreamConfig(name="BARE_QUEUE", subjects=["bare.invoke.*"], retention="workqueue")  # type: ignore[arg-type]  # the wire's word
        )
        await jetstream.add_stream(
            StreamConfig(name="BARE_STATE", subjects=["bare.state.*"], max_msgs_per_subject=1)
        )
        await jetstream.add_consumer(
            "BARE_QUEUE", ConsumerConfig(durable_name="echo", filter_subject="bare.invoke.echo")
        )
    return jetstream


class Front:
    """Writes the record and the message of a call, and waits for the message about its end."""

    def __init__(self, jetstream: JetStreamContext) -> None:
        self._jetstream = jetstream
        self._names = count()
        self._waiting: dict[str, asyncio.Future[bytes]] = {}

    async def start(self) -> None:
        async def on_end(message: Msg) -> None:
            waiting = self._waiting.pop(message.subject.rpartition(".")[2], None)
            if waiting is not None:
                waiting.set_result(message.data)

        await self._jetstream._nc.subscribe("bare.done.*", cb=on_end)

    async def call(self, payload: Any) -> bytes:
        name = f"{id(self)}-{next(self._names)}"
        ended = self._waiting[name] = asyncio.get_running_loop().create_future()
        record = json.dumps({"name": name, "state": "queued"}).encode()
        written = await self._jetstream.publish(
            f"bare.state.{name}", record, headers={EXPECTED: "0"}
        )
        message = {"name": name, "revision": written.seq, "payload": payload}
        await self._jetstream.publish(
            "bare.invoke.echo", json.dumps(message).encode(), headers={"Nats-Msg-Id": name}
        )
        body: bytes = await ended
        return body

    async def handle(self, request: web.Request) -> web.Response:
        return web.Response(body=await self.call(await request.json()))


class Worker:
    """Runs calls from the queue. Without a session it echoes the payload itself."""

    def __init__(self, jetstream: JetStreamContext, session: aiohttp.ClientSession | None) -> None:
        self._jetstream = jetstream
        self._session = session
        self._free = asyncio.Semaphore(AT_ONCE)

    async def run(self) -> None:
        pull = await self._jetstream.pull_subscribe_bind("echo", "BARE_QUEUE")
        async with asyncio.TaskGroup() as tasks:
            while True:
                await self._free.acquire()
                self._free.release()
                try:
                    fetched = await pull.fetch(self._free._value, timeout=5)
                except TimeoutError:
                    continue
                for message in fetched:
                    await self._free.acquire()
                    tasks.create_task(self._run(message))

    async def _run(self, message: Msg) -> None:
        call = json.loads(message.data)
        running = await self._write(call["name"], "running", call["revision"])
        body = await self._called(call)
        await self._write(call["name"], "succeeded", running, body)
        await self._jetstream._nc.publish(f"bare.done.{call['name']}", body)
        await message.ack()
        self._free.release()

    async def _called(self, call: Any) -> bytes:
        if self._session is None:
            return json.dumps(call["payload"]).encode()
        asked = {"invocationID": call["name"], "payload": call["payload"]}
        async with self._session.post("http://framework/invoke", json=asked) as answer:
            return await answer.read()

    async def _write(self, name: str, state: str, expected: int, body: bytes = b"null") -> int:
        record = b'{"name":"%s","state":"%s","body":%s}' % (name.encode(), state.encode(), body)
        headers = {EXPECTED: str(expected)}
        written = await self._jetstream.publish(f"bare.state.{name}", record, headers=headers)
        return written.seq


async def serve(url: str) -> None:
    front = Front(await connect(url))
    await front.start()
    app = web.Application()
    app.router.add_post("/", front.handle)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    assert site._server is not None
    print(site._server.sockets[0].getsockname()[1], flush=True)  # type: ignore[attr-defined]  # noqa: T201 - its caller reads the port
    await asyncio.Event().wait()


async def work(url: str, path: str = "") -> None:
    if not path:
        await Worker(await connect(url), None).run()
        return
    connector = aiohttp.UnixConnector(path=path, force_close=True)
    async with aiohttp.ClientSession(connector=connector) as session:
        await Worker(await connect(url), session).run()


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[2]) if sys.argv[1] == "front" else work(*sys.argv[2:]))
