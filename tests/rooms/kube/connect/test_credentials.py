"""Credentials that rotate, expire, are refused or hang, against a real server."""

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import attrs
import pytest
import structlog
from aiohttp import web

from gpuruntime.errors import ConfigurationError
from gpuruntime.kube.client import Client
from gpuruntime.kube.connect.credentials import REREAD_SECONDS, RETRY_SECONDS
from gpuruntime.kube.connect.endpoint import Endpoint
from gpuruntime.kube.connect.exec_plugin import ExecPlugin
from gpuruntime.kube.connect.sources import Kubeconfig
from gpuruntime.kube.errors import NotLeadingError, OutcomeUnknownError, UnauthorizedError
from gpuruntime.kube.http import HttpTransport, connect
from gpuruntime.kube.transport import Request
from tests.rooms.kube.connect.kubeconfigs import printing, write_kubeconfig, write_plugin
from tests.rooms.kube.servers import serving
from tests.rooms.kube.things import KEY, THINGS

GET = Request(method="GET", path="/")
PUT = Request(method="PUT", path="/", body=b"{}")


class Door:
    """A server that accepts its tokens only and counts the requests with each."""

    def __init__(self, *tokens: str) -> None:
        self.tokens = set(tokens)
        self.seen: list[str] = []

    async def handle(self, request: web.BaseRequest) -> web.Response:
        shown = request.headers.get("Authorization", "").removeprefix("Bearer ")
        self.seen.append(shown)
        return web.Response(status=200 if shown in self.tokens else 401)


@asynccontextmanager
async def connected(source: Kubeconfig) -> AsyncIterator[HttpTransport]:
    transport = await connect(source, now=lambda: datetime.now(UTC))
    try:
        yield transport
    finally:
        await transport.close()


async def status(transport: HttpTransport, request: Request = GET) -> int:
    return (await transport.request(request)).status


async def test_a_rotated_token_file_is_read_again_after_a_401(tmp_path: Path) -> None:
    door, token = Door("new"), tmp_path / "token"
    token.write_text("old")
    async with serving(door.handle) as url:
        config = write_kubeconfig(tmp_path, url, user={"tokenFile": str(token)})
        async with connected(Kubeconfig(str(config))) as transport:
            token.write_text("new")
            assert await status(transport, PUT) == 200
            assert await status(transport, PUT) == 200
    assert door.seen == ["old", "new", "new"]


async def test_a_stream_survives_a_rotated_token_too(tmp_path: Path) -> None:
    door, token = Door("new"), tmp_path / "token"
    token.write_text("old")
    async with serving(door.handle) as url:
        config = write_kubeconfig(tmp_path, url, user={"tokenFile": str(token)})
        async with connected(Kubeconfig(str(config))) as transport:
            token.write_text("new")
            async with transport.stream(GET) as stream:
                assert stream.status == 200


async def test_a_token_that_stays_refused_is_not_sent_again(tmp_path: Path) -> None:
    door = Door("right")
    async with serving(door.handle) as url:
        config = write_kubeconfig(tmp_path, url, user={"token": "wrong"})
        async with connected(Kubeconfig(str(config))) as transport:
            with pytest.raises(UnauthorizedError):
                await Client(transport).get(THINGS, KEY)
    assert door.seen == ["wrong"]


async def test_many_refused_requests_run_the_plugin_once(tmp_path: Path) -> None:
    door = Door("token-2")
    plugin = write_plugin(tmp_path, printing("{'token': f'token-{n}'}"))
    async with serving(door.handle) as url:
        config = write_kubeconfig(tmp_path, url, user={"exec": plugin})
        async with connected(Kubeconfig(str(config))) as transport, asyncio.TaskGroup() as group:
            requests = [group.create_task(status(transport)) for _ in range(20)]
    assert [request.result() for request in requests] == [200] * 20
    assert (tmp_path / "runs").read_text() == "2"
    assert door.seen.count("token-1") == 20


async def test_an_expired_token_is_renewed_before_it_is_sent(tmp_path: Path) -> None:
    door = Door("token-2")
    source = printing(
        "{'token': f'token-{n}', 'expirationTimestamp': in_seconds(-5 if n == 1 else 3600)}"
    )
    plugin = write_plugin(tmp_path, source)
    async with serving(door.handle) as url:
        config = write_kubeconfig(tmp_path, url, user={"exec": plugin})
        async with connected(Kubeconfig(str(config))) as transport:
            assert await status(transport) == 200
            assert await status(transport) == 200
    assert door.seen == ["token-1", "token-2", "token-2"]


@attrs.define
class Rotation:
    """A source whose loads return its accesses in turn; the last one repeats."""

    accesses: list[Endpoint | ConfigurationError]
    is_costly: bool = False
    loads: int = 0
    gate: threading.Event = attrs.field(factory=threading.Event)

    def load(self) -> Endpoint:
        self.gate.wait(10)
        self.loads += 1
        outcome = self.accesses[min(self.loads, len(self.accesses)) - 1]
        if isinstance(outcome, ConfigurationError):
            raise outcome
        return outcome

    def stop(self) -> None:
        self.gate.set()


START = datetime(2026, 1, 1, tzinfo=UTC)


async def accesses(
    directory: Path, url: str, *tokens: str, lives: tuple[int, ...] = ()
) -> list[Endpoint | ConfigurationError]:
    """Return an access for each token; the lives are in seconds from the start."""
    loaded: list[Endpoint | ConfigurationError] = []
    for index, token in enumerate(tokens):
        config = write_kubeconfig(directory, url, user={"token": token})
        access = await asyncio.to_thread(Kubeconfig(str(config)).load)
        expires_at = START + timedelta(seconds=lives[index]) if lives else None
        loaded.append(attrs.evolve(access, expires_at=expires_at))
    return loaded


@asynccontextmanager
async def rotating(rotation: Rotation) -> AsyncIterator[HttpTransport]:
    loop = asyncio.get_running_loop()
    rotation.gate.set()
    started = loop.time()
    transport = await connect(
        rotation, now=lambda: START + timedelta(seconds=loop.time() - started)
    )
    try:
        yield transport
    finally:
        await transport.close()


async def loaded(transport: HttpTransport) -> None:
    """Wait for the background load, whose thread virtual time does not know."""
    loading = transport._credentials._loading
    if loading is not None:
        await asyncio.wait({loading})


@pytest.mark.looptime
async def test_a_token_in_use_is_renewed_before_it_expires(tmp_path: Path) -> None:
    door = Door("a", "b")
    async with serving(door.handle) as url:
        rotation = Rotation(
            await accesses(tmp_path, url, "a", "b", lives=(600, 3600)), is_costly=True
        )
        async with rotating(rotation) as transport:
            await asyncio.sleep(479)
            await status(transport)
            await asyncio.sleep(2)
            await status(transport)
            await loaded(transport)
            await status(transport)
    assert door.seen == ["a", "a", "b"]
    assert rotation.loads == 2


@pytest.mark.looptime
async def test_files_are_read_again_every_minute_and_no_request_waits(tmp_path: Path) -> None:
    door = Door("a", "b")
    async with serving(door.handle) as url:
        rotation = Rotation(await accesses(tmp_path, url, "a", "b"))
        async with rotating(rotation) as transport:
            await asyncio.sleep(REREAD_SECONDS + 1)
            rotation.gate.clear()
            await status(transport)
            await status(transport)
            rotation.gate.set()
            await loaded(transport)
            await status(transport)
    assert door.seen == ["a", "a", "b"]


async def test_a_hanging_renewal_delays_only_refused_requests_until_their_deadline(
    tmp_path: Path,
) -> None:
    door = Door("b")
    async with serving(door.handle) as url:
        rotation = Rotation(await accesses(tmp_path, url, "a", "b"))
        async with rotating(rotation) as transport:
            rotation.gate.clear()
            refused = await status(transport, attrs.evolve(GET, timeout_seconds=0.3))
            assert refused == 401
            door.tokens = {"a"}
            assert await status(transport) == 200


@pytest.mark.looptime
async def test_a_plugin_whose_token_is_refused_is_not_run_for_every_request(
    tmp_path: Path,
) -> None:
    door = Door("right")
    async with serving(door.handle) as url:
        rotation = Rotation(await accesses(tmp_path, url, "a", "b", "c", "right"), is_costly=True)
        async with rotating(rotation) as transport:
            assert [await status(transport) for _ in range(5)] == [401] * 5
            assert rotation.loads == 2
            await asyncio.sleep(RETRY_SECONDS)
            assert await status(transport) == 401
            await asyncio.sleep(RETRY_SECONDS)
            assert await status(transport) == 200


async def test_a_failed_renewal_is_logged_and_the_old_credentials_stay(tmp_path: Path) -> None:
    door = Door("right")
    async with serving(door.handle) as url:
        broken = ConfigurationError("kubeconfig x: not YAML")
        rotation = Rotation([*(await accesses(tmp_path, url, "right")), broken])
        with structlog.testing.capture_logs() as logs:
            async with rotating(rotation) as transport:
                door.tokens = {"other"}
                assert await status(transport) == 401
                door.tokens = {"right"}
                assert await status(transport) == 200
    assert logs == [
        {
            "event": "credentials not renewed",
            "error": "kubeconfig x: not YAML",
            "log_level": "warning",
        }
    ]


@pytest.mark.parametrize(
    ("user", "cluster"),
    [
        ({"tokenFile": "to\0ken"}, {}),
        ({"client-key-data": "é"}, {}),
        ({"exec": {"apiVersion": "v1", "command": "true", "args": 5}}, {}),
        ({"token": "right"}, {"proxy-url": 5}),
        ({"token": "right"}, {"certificate-authority": "~nouser/ca"}),
    ],
    ids=[
        "token file with nul",
        "key data not ascii",
        "plugin args a number",
        "proxy a number",
        "authority in an unknown home",
    ],
)
async def test_a_kubeconfig_that_becomes_invalid_in_use_changes_nothing(
    tmp_path: Path, user: dict[str, Any], cluster: dict[str, Any]
) -> None:
    door = Door("right")
    async with serving(door.handle) as url:
        config = write_kubeconfig(tmp_path, url, user={"token": "right"})
        with structlog.testing.capture_logs() as logs:
            async with connected(Kubeconfig(str(config))) as transport:
                write_kubeconfig(tmp_path, url, user=user, cluster=cluster)
                door.tokens = {"other"}
                assert await status(transport) == 401
                door.tokens = {"right"}
                assert await status(transport) == 200
    assert [each["event"] for each in logs] == ["credentials not renewed"]


async def test_the_fence_is_asked_again_after_a_wait_for_credentials(tmp_path: Path) -> None:
    door = Door("b")
    answers: Iterator[Exception | None] = iter([None, NotLeadingError("not leading")])

    def fence() -> None:
        verdict = next(answers)
        if verdict is not None:
            raise verdict

    async with serving(door.handle) as url:
        rotation = Rotation(await accesses(tmp_path, url, "a", "b"))
        async with rotating(rotation) as transport:
            with pytest.raises(NotLeadingError):
                await transport.request(attrs.evolve(PUT, fence=fence))
    assert door.seen == ["a"]


async def test_a_fault_at_the_start_is_a_configuration_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="no such file"):
        await connect(Kubeconfig(str(tmp_path / "missing")), now=lambda: START)


async def test_a_start_that_is_cancelled_ends_its_hanging_plugin(tmp_path: Path) -> None:
    plugin = write_plugin(tmp_path, "import time; time.sleep(600)")
    config = write_kubeconfig(tmp_path, "http://127.0.0.1:1", user={"exec": plugin})
    source = Kubeconfig(str(config), plugin=ExecPlugin(timeout_seconds=60.0))
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.2):
            await connect(source, now=lambda: START)


async def test_a_write_whose_answer_was_lost_is_not_repeated_after_a_renewal(
    tmp_path: Path,
) -> None:
    async def drop(request: web.BaseRequest) -> web.Response:
        assert request.transport is not None
        request.transport.abort()
        return web.Response()

    async with serving(drop) as url:
        rotation = Rotation(await accesses(tmp_path, url, "a", "b"))
        async with rotating(rotation) as transport:
            with pytest.raises(OutcomeUnknownError):
                await transport.request(PUT)
    assert rotation.loads == 1
