"""The program `gpuruntime worker` on a real broker, beside its own framework."""

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from random import Random

import pytest

from gpuruntime.bus.connection import Connection
from gpuruntime.bus.credentials import ConnectionOptions
from gpuruntime.bus.names import Names
from gpuruntime.errors import ConfigurationError
from gpuruntime.framework.server import serving
from gpuruntime.models.kinds.functions import Framework as Where
from gpuruntime.models.kinds.invocations import State
from gpuruntime.roles.worker import REREAD_SECONDS, follow_limits, worker_options_of, worker_role
from gpuruntime.settings.load import load
from gpuruntime.settings.schema import Settings
from gpuruntime.worker.framework import framework
from gpuruntime.worker.worker import Worker
from tests.eventually import eventually, eventually_blocking
from tests.options import configured
from tests.proofs.real_cluster.product import Process, request
from tests.rooms.bus.broker import FUNCTION, Broker, bus
from tests.rooms.roles.programs import Programs
from tests.rooms.worker.invocations import accept
from tests.rooms.worker.workers import Ledger, ended, until_empty

MEBIBYTE = 1024 * 1024
ACK_WAIT_SECONDS = 1.5


@pytest.fixture
def where() -> Iterator[Where]:
    with tempfile.TemporaryDirectory(prefix="fw-") as folder:
        yield Where(socketPath=str(Path(folder, "framework.sock")))


def start(program: Programs, url: str, prefix: str, where: Where, name: str = "w1") -> Process:
    return program.start(
        "worker",
        nats={"url": url, "subjectPrefix": prefix},
        worker={
            "function": FUNCTION,
            "name": name,
            "concurrency": 4,
            "ackWait": ACK_WAIT_SECONDS,
            "framework": {"socketPath": where.socketPath},
        },
    )


@contextmanager
def echo(where: Where) -> Iterator[None]:
    argv = [sys.executable, "-m", "gpuruntime.framework.echo", "--socket", where.socketPath]
    process = subprocess.Popen(argv, stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.kill()
        process.wait()


def resident_bytes(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) * 1024


def reading(path: Path) -> Callable[[], Settings]:
    return lambda: load(str(path), flags={}, environment={})


def readiness(process: Process) -> str:
    """Return why the worker is not ready, or ok."""
    reason: bytes = request("GET", f"{process.operations}/readyz").document
    return reason.decode().strip()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("nats: {url: 'nats://a'}", "worker.function is empty"),
        ("nats: {url: a}", "nats.url: must be nats://host:port"),
        ("nats: {url: 'nats://a:4222,nats://b:x'}", "nats.url: must be nats://host:port"),
        ("nats: {url: 'http://a:4222'}", "nats.url: must be nats://host:port"),
        ("worker: {function: echo}", "nats.url is empty"),
        ("worker: {function: a.b, concurrency: 0}", "worker.concurrency: must be 1 to"),
        ("worker: {function: a.b}", "worker.function: must be 1 to 63"),
        ("worker: {maxAttempts: 101, name: A}", "worker.name: must be lower"),
        ("nats: {tokenFile: a, nkeyFile: b}", "nats.nkeyFile: is a second way to log in"),
        ("nats: {passwordFile: a}", "nats.passwordFile: needs the user"),
        ("nats: {certificateFile: a}", "nats.keyFile: goes with certificateFile"),
        ("nats: {subjectPrefix: a.b}", "nats.subjectPrefix: must be at most"),
        ("worker: {framework: {socketPath: x}}", "worker.framework.socketPath: must begin"),
    ],
)
def test_a_configuration_that_cannot_work_is_named(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "worker.yaml"
    path.write_text(text)
    with pytest.raises(ConfigurationError, match=words):
        worker_role(reading(path)(), reread=reading(path))


@pytest.mark.looptime
async def test_changed_limits_take_effect_without_a_restart_and_a_bad_file_changes_nothing(
    tmp_path: Path,
) -> None:
    path = tmp_path / "worker.yaml"
    text = "nats: {url: 'nats://127.0.0.1:1'}\nworker: {function: echo, name: w1, %s}\n"
    path.write_text(text % "attemptTimeout: 60, concurrency: 2")
    options = worker_options_of(reading(path)())
    reached = Connection(
        configured(ConnectionOptions, url="nats://127.0.0.1:1", name="t"), rng=Random(1)
    )
    async with framework(options) as called, asyncio.TaskGroup() as tasks:
        worker = Worker(
            reached, called, options, names=Names(), now=lambda: datetime.now(UTC), rng=Random(1)
        )
        following = tasks.create_task(follow_limits(worker, reading(path)))
        for given, attempt_seconds, max_attempts in (
            ("attemptTimeout: 7, maxAttempts: 2, concurrency: 9", 7.0, 2),
            ("attemptTimeout: soon", 7.0, 2),
            ("attemptTimeout: 8", 8.0, 5),
        ):
            path.write_text(text % given)
            await asyncio.sleep(REREAD_SECONDS + 1)
            tools = worker._tools
            assert tools.options.attempt_seconds == attempt_seconds
            assert tools.limits.max_attempts == tools.options.max_attempts == max_attempts
            assert tools.options.concurrency == 2
        following.cancel()


def test_a_worker_without_a_function_does_not_start(program: Programs) -> None:
    process = program.start("worker")
    assert process.exit_code() == 2
    assert "worker.function is empty" in process.tail()


def test_a_worker_without_broker_and_framework_is_alive_and_reports_what_is_missing(
    program: Programs, where: Where
) -> None:
    process = start(program, "nats://127.0.0.1:1", "nobody", where)
    assert request("GET", f"{process.operations}/healthz").status == 200
    answer = request("GET", f"{process.operations}/readyz")
    assert answer.status == 503
    assert process.stop() == 0


async def test_a_worker_runs_invocations_within_60_mebibytes_and_ends_cleanly(
    program: Programs, shared: Broker, where: Where
) -> None:
    async with bus(shared.url, "light", ack_wait_seconds=ACK_WAIT_SECONDS) as made:
        process = start(program, shared.url, "light", where)
        with echo(where):
            async with asyncio.TaskGroup() as tasks:
                for number in range(300):
                    tasks.create_task(accept(made, f"i{number}", payload={"text": "x" * 2000}))
            await until_empty(made)
            record = await ended(made, "i299")
        memory = resident_bytes(process.pid)
        assert process.stop() == 0
    assert (record.state, record.workerName) == (State.SUCCEEDED, "w1")
    assert memory <= 60 * MEBIBYTE, f"{memory / MEBIBYTE:.1f} MiB"


async def test_the_late_result_of_a_worker_paused_beyond_the_ack_wait_is_refused(
    program: Programs, shared: Broker, where: Where
) -> None:
    slow, quick = Ledger(), Ledger()
    slow.gate.clear()
    with tempfile.TemporaryDirectory(prefix="fw-") as folder:
        other = Where(socketPath=str(Path(folder, "framework.sock")))
        async with (
            bus(shared.url, "paused", ack_wait_seconds=ACK_WAIT_SECONDS) as made,
            serving(slow.handle, where),
            serving(quick.handle, other),
        ):
            paused = start(program, shared.url, "paused", where)
            await accept(made, "a")
            await eventually(lambda: slow.starts)
            os.kill(paused.pid, signal.SIGSTOP)
            slow.gate.set()
            start(program, shared.url, "paused", other, "w2")
            first = await ended(made, "a")
            os.kill(paused.pid, signal.SIGCONT)
            await until_lost(paused)
            await accept(made, "b")
            assert (await ended(made, "b")).state is State.SUCCEEDED
            assert await ended(made, "a") == first
    assert (first.attempt, first.workerName) == (2, "w2")
    assert [*slow.started, *quick.started][0] == ("a", 1)


async def until_lost(paused: Process) -> None:
    await eventually(lambda: "attempt lost" in paused.log.read_text())


def test_a_worker_is_ready_from_its_frameworks_start_until_it_is_drained(
    program: Programs, shared: Broker, where: Where
) -> None:
    process = start(program, shared.url, "ready", where)
    eventually_blocking(lambda: readiness(process), lambda reason: "framework" in reason)
    with echo(where):
        process.wait_until_ready()
        assert request("GET", f"{process.operations}/drain").status == 200
        assert readiness(process) == "drained"
        assert process.stop() == 0
