import asyncio

import aiohttp
import pytest

from gpuruntime.errors import ConfigurationError
from gpuruntime.telemetry.listener import operations_listener
from gpuruntime.telemetry.metrics import Registry


async def fetch(port: int, path: str) -> tuple[int, str]:
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"http://127.0.0.1:{port}{path}") as answer,
    ):
        return answer.status, await answer.text()


async def test_the_listener_reports_liveness_readiness_and_metrics() -> None:
    registry = Registry()
    registry.count("events_sent_total")
    reason = "caches have not synced"
    async with operations_listener(
        host="127.0.0.1", port=0, registry=registry, not_ready=lambda: reason
    ) as port:
        assert await fetch(port, "/healthz") == (200, "ok\n")
        assert await fetch(port, "/readyz") == (503, "caches have not synced\n")
        reason = ""
        assert await fetch(port, "/readyz") == (200, "ok\n")
        assert "gpuruntime_events_sent_total 1.0" in (await fetch(port, "/metrics"))[1]


async def test_a_drain_is_answered_at_its_end_and_only_if_there_is_one() -> None:
    begun, may_end = asyncio.Event(), asyncio.Event()

    async def drain() -> None:
        begun.set()
        await may_end.wait()

    async with (
        operations_listener(
            host="127.0.0.1", port=0, registry=Registry(), not_ready=str, drain=drain
        ) as port,
        asyncio.TaskGroup() as tasks,
    ):
        draining = tasks.create_task(fetch(port, "/drain"))
        await begun.wait()
        assert (await fetch(port, "/healthz"))[0] == 200
        assert not draining.done()
        may_end.set()
        assert await draining == (200, "ok\n")
    async with operations_listener(
        host="127.0.0.1", port=0, registry=Registry(), not_ready=str
    ) as port:
        assert (await fetch(port, "/drain"))[0] == 404


async def test_a_port_in_use_is_named_with_its_setting() -> None:
    async with operations_listener(
        host="127.0.0.1", port=0, registry=Registry(), not_ready=str
    ) as port:
        with pytest.raises(ConfigurationError, match=rf"operations\.listen: .*:{port} is in use"):
            async with operations_listener(
                host="127.0.0.1", port=port, registry=Registry(), not_ready=str
            ):
                pass


async def test_no_answer_discloses_versions() -> None:
    async with (
        operations_listener(host="127.0.0.1", port=0, registry=Registry(), not_ready=str) as port,
        aiohttp.ClientSession() as session,
    ):
        for path in ("/healthz", "/metrics", "/nowhere"):
            async with session.get(f"http://127.0.0.1:{port}{path}") as answer:
                assert answer.headers["Server"] == "gpuruntime"
                assert answer.headers["X-Content-Type-Options"] == "nosniff"
