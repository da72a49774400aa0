"""A unit's log: from the right Pod, passed on piece by piece, closed when its reader leaves."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import attrs
import pytest
import structlog
from aiohttp import ClientTimeout

from gpuruntime.api.routes.logs import LOOK_EVERY_SECONDS
from gpuruntime.kube.errors import OutcomeUnknownError, UnreachableError
from gpuruntime.kube.transport import Request, Response, Socket, StreamResponse, Transport
from gpuruntime.models.kubernetes.pods import PODS
from tests.rooms.api.routes.test_events import add_pod
from tests.rooms.api.service import UNITS, Service, service
from tests.rooms.operations.cluster import INSTANCE, Cluster
from tests.row_ids import in_words

pytestmark = pytest.mark.looptime

LOG = f"{UNITS}/demo/logs"


@attrs.define
class LogStream:
    chunks: Callable[[], AsyncIterator[bytes]]
    status: int = 200
    headers: Mapping[str, str] = attrs.field(factory=dict)


def lines(*texts: bytes) -> LogStream:
    async def chunks() -> AsyncIterator[bytes]:
        for text in texts:
            yield text

    return LogStream(chunks)


def refusal(status: int, message: str) -> LogStream:
    body = {"kind": "Status", "apiVersion": "v1", "code": status, "message": message}
    stream = lines(json.dumps(body).encode())
    return attrs.evolve(stream, status=status)


class WithLogs:
    """A Transport with logs, which the embedded server does not keep."""

    def __init__(self, inner: Transport) -> None:
        self._inner = inner
        self.answer = lines()
        self.opening_seconds = 0.0
        self.fault: Exception | None = None
        self.asked: list[Request] = []
        self.open = 0

    async def request(self, request: Request) -> Response:
        return await self._inner.request(request)

    def stream(self, request: Request) -> AbstractAsyncContextManager[StreamResponse]:
        return self._stream(request)

    def socket(
        self, request: Request, protocol: str
    ) -> AbstractAsyncContextManager[Socket | Response]:
        raise NotImplementedError(f"no test here opens a {protocol}: {request.path}")

    @asynccontextmanager
    async def _stream(self, request: Request) -> AsyncIterator[StreamResponse]:
        self.asked.append(request)
        self.open += 1
        try:
            await asyncio.sleep(self.opening_seconds)
            if self.fault:
                raise self.fault
            yield self.answer
        finally:
            self.open -= 1


@pytest.fixture
async def cluster() -> Cluster:
    return Cluster()


@attrs.frozen
class Served:
    api: Service
    logs: WithLogs


@pytest.fixture
async def served(cluster: Cluster) -> AsyncIterator[Served]:
    cluster.add_stock(1)
    made: list[WithLogs] = []

    def around(inner: Transport) -> Transport:
        made.append(WithLogs(inner))
        return made[0]

    async with service(cluster, around=around) as api:
        await api.create(name="demo")
        yield Served(api, made[0])


def start_container(cluster: Cluster, pod: str) -> None:
    statuses = [
        {"name": "runtime", "ready": True, "restartCount": 0, "image": "x", "imageID": "x"}
    ]
    path = PODS.path(namespace=INSTANCE, name=pod, subresource="status")
    cluster.call("PATCH", path, {"status": {"containerStatuses": statuses}})


async def test_a_log_is_passed_on_as_text(cluster: Cluster, served: Served) -> None:
    add_pod(cluster, "pod-1", "demo")
    served.logs.answer = lines(b"one\ntw", b"o\n\xff")
    answer = await served.api.call("GET", LOG)
    assert answer.status == 200
    assert answer.headers["Content-Type"] == "text/plain; charset=utf-8"
    assert answer.headers["X-Request-Id"]
    assert answer.bytes == b"one\ntwo\n\xff"
    (asked,) = served.logs.asked
    assert asked.path == f"/api/v1/namespaces/{INSTANCE}/pods/pod-1/log"
    assert dict(asked.query) == {"container": "runtime"}
    assert served.logs.open == 0


async def test_the_query_of_a_log_is_passed_to_the_pod(cluster: Cluster, served: Served) -> None:
    add_pod(cluster, "pod-1", "demo")
    asked = "tail=0&follow=true&container=sidecar&sinceSeconds=90&previous=true&timestamps=true"
    await served.api.call("GET", f"{LOG}?{asked}")
    assert dict(served.logs.asked[0].query) == {
        "container": "sidecar",
        "follow": "true",
        "tailLines": "0",
        "sinceSeconds": "90",
        "previous": "true",
        "timestamps": "true",
    }


async def test_the_log_is_that_of_the_newest_pod(cluster: Cluster, served: Served) -> None:
    add_pod(cluster, "pod-b", "demo")
    await asyncio.sleep(5)
    add_pod(cluster, "pod-a", "demo")
    await served.api.call("GET", LOG)
    assert served.logs.asked[0].path.endswith("/pods/pod-a/log")


async def test_a_reader_that_leaves_before_the_log_opens_causes_no_error(
    cluster: Cluster, served: Served
) -> None:
    add_pod(cluster, "pod-1", "demo")
    served.logs.opening_seconds = 10
    with structlog.testing.capture_logs() as said:
        with pytest.raises(TimeoutError):
            await served.api.client.session.get(
                served.api.client.make_url(LOG), timeout=ClientTimeout(total=1)
            )
        await asyncio.sleep(20)
    assert served.logs.open == 0
    assert [line for line in said if line["log_level"] == "error"] == []


async def test_a_followed_log_comes_line_by_line(cluster: Cluster, served: Served) -> None:
    add_pod(cluster, "pod-1", "demo")

    async def ticking() -> AsyncIterator[bytes]:
        for number in range(3):
            await asyncio.sleep(10)
            yield b"%d\n" % number

    served.logs.answer = LogStream(ticking)
    loop = asyncio.get_running_loop()
    async with served.api.client.get(f"{LOG}?follow=true") as response:
        started = loop.time()
        heard = [(line, round(loop.time() - started)) async for line in response.content]
    assert heard == [(b"0\n", 10), (b"1\n", 20), (b"2\n", 30)]


async def test_a_log_is_closed_when_its_reader_leaves(cluster: Cluster, served: Served) -> None:
    add_pod(cluster, "pod-1", "demo")

    async def silent() -> AsyncIterator[bytes]:
        yield b"hello\n"
        await asyncio.Event().wait()

    served.logs.answer = LogStream(silent)
    response = await served.api.client.get(f"{LOG}?follow=true")
    assert await response.content.readline() == b"hello\n"
    assert served.logs.open == 1
    response.close()
    await asyncio.sleep(2 * LOOK_EVERY_SECONDS)
    assert served.logs.open == 0


async def test_a_followed_log_has_no_deadline(cluster: Cluster, served: Served) -> None:
    add_pod(cluster, "pod-1", "demo")

    async def slow() -> AsyncIterator[bytes]:
        await asyncio.sleep(3_600)
        yield b"at last\n"

    served.logs.answer = LogStream(slow)
    asked = served.api.client.get(f"{LOG}?follow=true", timeout=ClientTimeout(total=7_200))
    async with asked as response:
        assert await response.read() == b"at last\n"


async def test_a_log_ends_with_its_connection(cluster: Cluster, served: Served) -> None:
    add_pod(cluster, "pod-1", "demo")

    async def dying() -> AsyncIterator[bytes]:
        yield b"one\n"
        raise UnreachableError("reset")

    served.logs.answer = LogStream(dying)
    assert (await served.api.call("GET", LOG)).bytes == b"one\n"


async def test_head_of_a_log_reads_no_log(cluster: Cluster, served: Served) -> None:
    add_pod(cluster, "pod-1", "demo")
    served.logs.answer = lines(b"one\n")
    answer = await served.api.call("HEAD", LOG)
    assert (answer.status, answer.bytes) == (200, b"")


async def test_a_unit_without_a_pod_has_no_log_yet(served: Served) -> None:
    answer = await served.api.call("GET", LOG)
    assert (answer.status, answer.code) == (404, "not_found")


async def test_a_waiting_container_has_no_log_yet(cluster: Cluster, served: Served) -> None:
    add_pod(cluster, "pod-1", "demo")
    served.logs.answer = refusal(400, 'container "runtime" is waiting to start')
    answer = await served.api.call("GET", LOG)
    assert (answer.status, answer.code) == (404, "not_found")
    assert "waiting to start" in answer.body["error"]["message"]


async def test_an_unknown_container_is_reported(cluster: Cluster, served: Served) -> None:
    add_pod(cluster, "pod-1", "demo")
    start_container(cluster, "pod-1")
    answer = await served.api.call("GET", f"{LOG}?container=other")
    assert (answer.status, answer.fields) == (400, ["container"])


@pytest.mark.parametrize(
    ("status", "told"),
    [(403, (403, "forbidden")), (500, (503, "service_unavailable"))],
    ids=in_words,
)
async def test_a_refusal_of_the_cluster_comes_before_the_first_byte(
    cluster: Cluster, served: Served, status: int, told: tuple[int, str]
) -> None:
    add_pod(cluster, "pod-1", "demo")
    served.logs.answer = refusal(status, "no")
    answer = await served.api.call("GET", LOG)
    assert (answer.status, answer.code) == told


@pytest.mark.parametrize(
    "fault", [UnreachableError("reset"), OutcomeUnknownError("reset")], ids=in_words
)
async def test_a_log_that_cannot_be_opened_is_503_with_retry_after(
    cluster: Cluster, served: Served, fault: Exception
) -> None:
    add_pod(cluster, "pod-1", "demo")
    served.logs.fault = fault
    answer = await served.api.call("GET", LOG)
    assert (answer.status, answer.code) == (503, "service_unavailable")


@pytest.mark.parametrize("query", ["tail=-1", "tail=x", "tail=1000001", "tail=1.0"])
async def test_a_malformed_tail_is_reported(served: Served, query: str) -> None:
    answer = await served.api.call("GET", f"{LOG}?{query}")
    assert (answer.status, answer.fields) == (400, ["tail"])


@pytest.mark.parametrize("query", ["follow=1", "follow=TRUE", "follow="])
async def test_a_malformed_follow_is_reported(served: Served, query: str) -> None:
    answer = await served.api.call("GET", f"{LOG}?{query}")
    assert (answer.status, answer.fields) == (400, ["follow"])
