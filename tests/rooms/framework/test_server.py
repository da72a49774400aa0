import asyncio
import logging
import re
import signal
import socket
import stat
import subprocess
import sys
import threading
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from gpuruntime.framework import call_logs
from gpuruntime.framework.calls import Answer, Call, CallError
from gpuruntime.framework.echo import echo
from gpuruntime.framework.server import Handler, serving
from tests.eventually import eventually_blocking
from tests.rooms.framework.sockets import client, framework, serving_to

CALL = {"version": "v1", "invocationID": "one", "attempt": 2, "payload": {"a": [1, None]}}


async def answer(session: aiohttp.ClientSession, **changes: object) -> dict[str, Any]:
    async with session.post("/invoke", json={**CALL, **changes}) as response:
        assert response.status == 200, await response.text()
        told: dict[str, Any] = await response.json()
        return told


async def test_the_returned_value_of_a_function_is_the_body() -> None:
    async with serving_to(lambda call: [call.attempt, call.payload["a"]]) as (_, session):
        told = await answer(session, unknown="a later worker's member")
    assert told == {
        "statusCode": 200,
        "contentType": "application/json",
        "headers": {},
        "body": [2, [1, None]],
        "error": "",
    }


async def test_a_coroutine_function_is_awaited() -> None:
    async def handle(call: Call) -> str:
        await asyncio.sleep(0)
        return call.invocationID

    async with serving_to(handle) as (_, session):
        assert (await answer(session))["body"] == "one"


async def test_a_function_may_return_a_whole_answer() -> None:
    chosen = Answer(statusCode=404, headers={"X": "y"}, body="nobody")
    async with serving_to(lambda _: chosen) as (_, session):
        told = await answer(session)
    assert (told["statusCode"], told["headers"], told["body"]) == (404, {"X": "y"}, "nobody")


def failing(error: Exception) -> Handler:
    def handle(_: Call) -> object:
        raise error

    return handle


async def test_a_call_error_reaches_the_worker_without_a_traceback() -> None:
    async with serving_to(failing(CallError("the model is not loaded"))) as (_, session):
        told = await answer(session)
    error = {"type": "CallError", "message": "the model is not loaded", "traceback": ""}
    assert (told["statusCode"], told["error"]) == (500, error)


async def test_any_other_error_reaches_the_worker_with_its_traceback(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with serving_to(failing(KeyError("name"))) as (_, session):
        told = await answer(session)
        async with session.get("/healthz") as response:
            assert response.status == 200
    assert (told["statusCode"], told["body"]) == (500, None)
    assert (told["error"]["type"], told["error"]["message"]) == ("KeyError", "'name'")
    assert told["error"]["traceback"].startswith("Traceback (most recent call last):")
    assert "test_server.py" in told["error"]["traceback"]
    assert "KeyError: 'name'" in caplog.text


async def test_an_answer_that_is_no_json_is_an_error_of_the_function() -> None:
    async with serving_to(lambda _: object()) as (_, session):
        told = await answer(session)
    assert (told["statusCode"], told["error"]["type"]) == (500, "TypeError")


async def test_the_end_of_a_long_traceback_is_kept_in_whole_lines() -> None:
    def deep(depth: int) -> object:
        if depth:
            return deep(depth - 1) if depth % 2 else [deep(depth - 1)]
        raise ValueError("é" * 300)

    async with serving_to(lambda _: deep(80)) as (_, session):
        told = (await answer(session))["error"]["traceback"]
    assert 1_500 < len(told.encode()) <= 2_048
    assert told.startswith("  ")
    assert told.endswith("é" * 300 + "\n")


async def test_a_function_may_keep_its_errors_to_its_log(caplog: pytest.LogCaptureFixture) -> None:
    with framework() as where:
        handle = failing(KeyError("secret"))
        async with (
            serving(handle, where, reports_errors=False),
            client(where.socketPath) as session,
        ):
            told = await answer(session)
    message = "the function failed: its log says why"
    assert told["error"] == {"type": "", "message": message, "traceback": ""}
    assert "secret" in caplog.text


def test_a_log_line_of_a_call_has_its_time_its_invocation_and_its_attempt() -> None:
    script = (
        "import logging, threading\n"
        "from gpuruntime.framework import call_logs\n"
        "from gpuruntime.framework.calls import Call\n"
        "call_logs.format_lines()\n"
        "with call_logs.calling(Call(invocationID='one', attempt=2)):\n"
        "    logging.info('inside')\n"
        "logging.info('outside')\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    inside, outside = ran.stderr.splitlines()
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \S+ INFO \[one attempt 2\] inside", inside)
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \S+ INFO outside", outside)


async def test_a_log_line_in_the_thread_of_a_plain_function_has_its_invocation() -> None:
    seen = []

    def handle(_: Call) -> None:
        record = logging.makeLogRecord({"msg": "x"})
        call_logs.add_call(record)
        seen.append(getattr(record, "call", None))

    async with serving_to(handle) as (_, session):
        await answer(session)
    assert seen == ["[one attempt 2] "]


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"invocationID": 7}', b"\xff", b"{}"])
async def test_a_body_that_is_not_a_call_is_rejected(body: bytes) -> None:
    async with serving_to(echo) as (_, session), session.post("/invoke", data=body) as response:
        assert response.status == 400


async def test_a_slow_plain_function_does_not_block_the_health_check() -> None:
    gate = threading.Event()

    def handle(call: Call) -> str:
        assert gate.wait(10)
        return call.invocationID

    async with serving_to(handle) as (_, session), asyncio.TaskGroup() as tasks:
        slow = tasks.create_task(answer(session))
        async with session.get("/healthz") as response:
            assert response.status == 200
        gate.set()
        assert (await slow)["body"] == "one"


async def test_every_call_of_a_plain_function_has_its_own_thread() -> None:
    """Forty calls are more than an executor's default threads."""
    together = threading.Barrier(40)

    def handle(_: Call) -> int:
        return together.wait(10)

    async with serving_to(handle) as (_, session), asyncio.TaskGroup() as tasks:
        asked = [tasks.create_task(answer(session)) for _ in range(40)]
    assert {(await each)["body"] for each in asked} == set(range(40))


async def test_each_call_of_a_plain_function_has_its_own_context() -> None:
    seen: ContextVar[str] = ContextVar("seen")

    def handle(_: Call) -> str:
        seen.set(seen.get("nothing") + " before")
        return seen.get()

    async with serving_to(handle) as (_, session):
        assert [(await answer(session))["body"] for _ in range(2)] == ["nothing before"] * 2


async def test_a_call_that_the_worker_breaks_off_is_cancelled() -> None:
    entered, cancelled = asyncio.Event(), asyncio.Event()

    async def handle(_: Call) -> None:
        entered.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    async with serving_to(handle) as (_, session), asyncio.TaskGroup() as tasks:
        asking = tasks.create_task(answer(session))
        await entered.wait()
        asking.cancel()
        async with asyncio.timeout(5):
            await cancelled.wait()


async def test_a_stop_fails_the_health_check_and_waits_for_calls_in_progress() -> None:
    entered, gate = asyncio.Event(), asyncio.Event()

    async def handle(_: Call) -> str:
        entered.set()
        await gate.wait()
        return "done"

    async with serving_to(handle) as (server, session), asyncio.TaskGroup() as tasks:
        slow = tasks.create_task(answer(session))
        await entered.wait()
        stop = tasks.create_task(server.stop(grace_seconds=10))
        await asyncio.sleep(0)
        async with session.get("/healthz") as response:
            assert response.status == 503
        assert not stop.done()
        gate.set()
        assert (await slow)["body"] == "done"
        await stop


async def test_any_user_may_connect_and_a_leftover_socket_is_replaced() -> None:
    with framework() as where:
        for _ in range(2):
            leave_a_socket(where.socketPath)
            async with serving(echo, where), client(where.socketPath) as session:
                assert mode_of(where.socketPath) == 0o666
                assert (await answer(session))["body"] == CALL["payload"]


def test_the_echo_module_serves_until_sigterm_and_exits_0() -> None:
    with framework() as where:
        argv = [sys.executable, "-m", "gpuruntime.framework.echo", "--socket", where.socketPath]
        process = subprocess.Popen(argv, stderr=subprocess.DEVNULL)
        try:
            eventually_blocking(lambda: asked(where.socketPath), lambda told: b"200 OK" in told)
            process.send_signal(signal.SIGTERM)
            assert process.wait(10) == 0
        finally:
            process.kill()
            process.wait()


def leave_a_socket(path: str) -> None:
    Path(path).parent.mkdir(exist_ok=True)
    Path(path).unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(path)


def mode_of(path: str) -> int:
    return stat.S_IMODE(Path(path).stat().st_mode)


def asked(path: str) -> bytes:
    """Return the answer to a health check, or nothing while no server listens."""
    with socket.socket(socket.AF_UNIX) as asking:
        try:
            asking.connect(path)
        except OSError:
            return b""
        asking.sendall(b"GET /healthz HTTP/1.0\r\n\r\n")
        return asking.recv(1000)
