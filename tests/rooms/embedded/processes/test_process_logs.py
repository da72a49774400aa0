"""Logs of processes: whole, their last lines, and while they grow."""

import asyncio
from pathlib import Path

import pytest

from gpuruntime.embedded.apiserver.pod_logs import NO_LOGS, LogRequest
from gpuruntime.embedded.processes.process_logs import LogFile, ProcessLogs


class File:
    """The log file of one process, and whether it runs."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "log"
        self.runs = True

    def write(self, text: str) -> None:
        with self.path.open("a") as file:
            file.write(text)

    def found(self, request: LogRequest) -> LogFile | None:
        return (self.path, lambda: self.runs) if request.container == "c" else None


def asked(container: str = "c", tail: int | None = None) -> LogRequest:
    return LogRequest(namespace="n", pod="p", container=container, tail=tail)


def test_as_many_last_lines_are_returned_as_requested(tmp_path: Path) -> None:
    file = File(tmp_path)
    file.write("a\nb\nc")
    logs = ProcessLogs(file.found, NO_LOGS)
    assert logs.read(asked()) == b"a\nb\nc"
    assert logs.read(asked(tail=2)) == b"b\nc"
    assert logs.read(asked(tail=0)) == b""
    assert logs.read(asked(tail=9)) == b"a\nb\nc"


@pytest.mark.looptime
async def test_a_follower_reads_to_the_end(tmp_path: Path) -> None:
    file = File(tmp_path)
    file.write("first\n")
    received: list[bytes] = []

    async def follow() -> None:
        async for piece in ProcessLogs(file.found, NO_LOGS).follow(asked()):
            received.append(piece)
            if len(received) == 1:
                file.write("at once\n")

    async with asyncio.TaskGroup() as tasks:
        following = tasks.create_task(follow())
        await asyncio.sleep(2)
        file.write("second\n")
        await asyncio.sleep(2)
        assert b"".join(received) == b"first\nat once\nsecond\n"
        file.write("last\n")
        file.runs = False
        await following
    assert b"".join(received) == b"first\nat once\nsecond\nlast\n"
