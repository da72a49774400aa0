"""Many callers that send half a request as long as they may: another caller hardly notices.

`nox -s bench` measures how much it notices. Here the clock is the loop's, so that any wait for a
slow caller shows.
"""

import asyncio
from collections import Counter
from contextlib import suppress

import pytest

from gpuruntime.api.http.body import BodyLimits
from gpuruntime.api.http.server import ConnectionLimits
from tests.options import configured
from tests.rooms.api.service import UNITS, Service, service
from tests.rooms.operations.cluster import Cluster

pytestmark = pytest.mark.looptime

# The listener's backlog: further connections are retried after a second of the machine's clock.
SLOW = 120
HEAD = b"GET /api/v1/gpu-units HTTP/1.1\r\nHost: here\r\nX-Slow: "
BODY = (
    b"POST /api/v1/gpu-units HTTP/1.1\r\nHost: here\r\nContent-Type: application/json\r\n"
    b"Content-Length: 1000\r\n\r\n"
)
NEAR = 1.0


async def besiege(api: Service, start: bytes) -> float:
    """Send a byte every other second until the API closes; return the seconds that it took."""
    assert api.client.port
    loop = asyncio.get_running_loop()
    began = loop.time()
    reader, writer = await asyncio.open_connection("127.0.0.1", api.client.port)
    writer.write(start)
    with suppress(ConnectionError):
        while not reader.at_eof():
            writer.write(b" ")
            with suppress(TimeoutError):
                async with asyncio.timeout(2.0):
                    await reader.read(4096)
    writer.close()
    return loop.time() - began


async def test_many_slow_callers_do_not_delay_another_and_are_all_ended() -> None:
    async with service(Cluster()) as api, asyncio.TaskGroup() as tasks:
        loop = asyncio.get_running_loop()
        heads = [tasks.create_task(besiege(api, HEAD)) for _ in range(SLOW // 2)]
        bodies = [tasks.create_task(besiege(api, BODY)) for _ in range(SLOW // 2)]
        waited, statuses = 0.0, Counter[int]()
        while not all(task.done() for task in (*heads, *bodies)):
            began = loop.time()
            statuses[(await api.call("GET", UNITS)).status] += 1
            waited = max(waited, loop.time() - began)
            await asyncio.sleep(1.0)
    assert set(statuses) == {200}
    assert waited < NEAR
    assert max(task.result() for task in heads) < configured(ConnectionLimits).head_seconds + NEAR
    assert max(task.result() for task in bodies) < configured(BodyLimits).longest_seconds + NEAR
