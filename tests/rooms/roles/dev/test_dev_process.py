"""The program `gpuruntime dev` as a person at a terminal uses it."""

import os
import re
import resource
import signal
import socket
import subprocess
import sys
import time
from operator import not_
from pathlib import Path
from typing import IO

import pytest
import yaml

from tests.eventually import eventually_blocking
from tests.proofs.real_cluster.product import Caller, Process, request
from tests.rooms.roles.programs import ANY_PORT, UP, Programs, printed, suggested, wait_for

GRACE_SECONDS = 10.0


def processor_seconds(pid: int) -> float:
    """Return the processor time used so far, which other work on the machine does not change."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def ports_of(dev: Process) -> list[int]:
    server = yaml.safe_load(Path(printed(dev, "kubeconfig")).read_text())
    text = dev.log.read_text() + server["clusters"][0]["cluster"]["server"]
    return [int(port) for port in set(re.findall(r"http://127\.0\.0\.1:(\d+)", text))]


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads Linux's /proc")
def test_dev_is_up_within_three_seconds(program: Programs) -> None:
    assert processor_seconds(program.dev().pid) < 3


def test_the_suggested_commands_work_when_pasted(program: Programs) -> None:
    dev = program.dev()
    lines = suggested(dev.log.read_text())
    assert len(lines) == 7
    assert f"{sys.executable} -m gpuruntime pools create" in lines[1]
    pasted = subprocess.run(
        ["bash", "-ec", "\n".join(lines)], capture_output=True, text=True, timeout=60, check=False
    )
    assert pasted.returncode == 0, pasted.stderr
    assert '"hello": "world"' in pasted.stdout
    unit = Caller(dev.address).until("/gpu-units/demo", lambda unit: unit["phase"] == "Ready")
    assert "runs as processes of this machine" in unit["message"]


def test_a_unit_with_more_gpus_than_a_node_shows_the_schedulers_message(
    program: Programs,
) -> None:
    caller = Caller(program.dev().address)
    stock = {"operationID": "much", "specName": "g9", "gpu": 9, "replicas": 1}
    assert caller.post("/operator/stock-units", stock).status == 202
    (unit,) = caller.until(
        "/gpu-units?lifecycle=stock",
        lambda units: bool(units) and units[0]["reason"] == "PodUnschedulable",
    )
    assert "Insufficient nvidia.com/gpu" in unit["message"]


def test_dev_listens_on_127_0_0_1_only(program: Programs) -> None:
    """All of 127.0.0.0/8 is this machine: a listener on every interface would answer there."""
    dev = program.dev("--listen", ANY_PORT)
    ports = ports_of(dev)
    assert len(ports) == 9, "the api, the cluster, the gateway, its activity, five of operations"
    for port in ports:
        socket.create_connection(("127.0.0.1", port)).close()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.2", port))


def test_a_second_dev_takes_free_ports_and_prints_them(program: Programs) -> None:
    addresses = set()
    for _ in range(2):
        dev = program.start("dev", listen=None, operations={})
        text = wait_for(dev, UP)
        addresses |= {printed(dev, "api")}
        assert Caller(printed(dev, "api")).get("/health").status == 200
        is_usual = printed(dev, "api") == "http://127.0.0.1:8080"
        assert ("port is in use, another one is taken" in text) is not is_usual
        assert is_usual or f"export GPURUNTIME_SERVER={printed(dev, 'api')}" in text
    assert len(addresses) == 2


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_state_folder_keeps_everything_over_restarts(
    program: Programs, tmp_path: Path, number: int
) -> None:
    state = tmp_path / "state"
    dev = program.dev("--state", str(state))
    assert printed(dev, "kubeconfig") == str(state / "kubeconfig")
    assert f"state        {state}, new\n" in dev.log.read_text()
    pasted = "\n".join(suggested(dev.log.read_text()))
    subprocess.run(["bash", "-ec", pasted], capture_output=True, timeout=60, check=True)
    caller = Caller(dev.address)
    sent = {"serverlessRequestID": "echo", "invocationID": "first", "payload": {"a": 1}}
    assert caller.post("/serverless/invocations", sent).status == 202
    path = "/serverless/invocations/first?serverlessRequestID=echo"
    done = caller.until(path, lambda view: view["state"] == "succeeded")
    before = {each: caller.get(f"/gpu-units/{each}").data for each in ("demo", "echo-w-1")}
    time.sleep(1.2)  # more than the journal may be behind
    os.kill(dev.pid, number)
    dev.exit_code()

    again = program.dev("--state", str(state))
    was_killed = number == signal.SIGKILL
    assert ("the last run was killed" in again.log.read_text()) is was_killed
    caller = Caller(again.address)
    unit = caller.until("/gpu-units/demo", lambda unit: unit["phase"] == "Ready")
    assert [unit[each] for each in ("createdAt", "nodeName", "sourceStock", "phase")] == [
        before["demo"][each] for each in ("createdAt", "nodeName", "sourceStock", "phase")
    ]
    assert caller.get(path).data == done
    called = {"serverlessRequestID": "echo", "mode": "sync", "payload": {"hello": "again"}}
    assert caller.post("/serverless/invocations", called).data["body"] == {"hello": "again"}
    assert caller.get("/gpu-units/echo-w-1").data["createdAt"] == before["echo-w-1"]["createdAt"]


def test_on_a_terminal_the_banner_follows_logs_in_columns() -> None:
    ours, theirs = os.openpty()
    listens = ("--listen", ANY_PORT)
    dev = subprocess.Popen(
        [sys.executable, "-m", "gpuruntime", "dev", *listens],
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    text = b""
    with dev:
        try:
            while UP.strip().encode() not in text:
                text += os.read(ours, 65536)
        finally:
            dev.terminate()
            os.close(ours)
    logs, _, banner = text.decode().replace("\r", "").partition("api   ")
    assert "operations listening" in logs
    assert '"event"' not in logs
    lines = banner.splitlines()[1:]
    assert [line for line in lines if "[info" in line or "info " in line] == []
    assert lines[0].startswith("console ")


def test_a_state_folder_in_use_is_one_line_with_the_remedy(
    program: Programs, tmp_path: Path
) -> None:
    program.start("dev", "--only", "cluster", "--state", str(tmp_path / "state"))
    eventually_blocking((tmp_path / "state" / "kubeconfig").exists, bool)
    second = program.start("dev", "--state", str(tmp_path / "state"))
    assert second.exit_code() == 2
    assert "another gpuruntime dev uses this folder: stop it" in second.log.read_text()
    assert "Traceback" not in second.log.read_text()


def test_dev_goes_on_with_a_full_disk_and_says_what_is_not_kept(tmp_path: Path) -> None:
    """A limit of the size of files stands for the disk; output goes to a pipe beside it."""
    dev = subprocess.Popen(
        [sys.executable, "-m", "gpuruntime", "dev", "--only", "cluster", "--state", tmp_path],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    with dev:
        try:
            assert dev.stdout
            until_line(dev.stdout, "kubeconfig ")
            url = yaml.safe_load((tmp_path / "kubeconfig").read_text())["clusters"][0]["cluster"]
            maps = f"{url['server']}/api/v1/namespaces/default/configmaps"
            limit_files(dev.pid, 1)
            assert request("POST", maps, {"metadata": {"name": "a"}}).status == 201
            until_line(dev.stdout, '"state not kept"')
            assert request("GET", f"{maps}/a").status == 200
            limit_files(dev.pid, resource.RLIM_INFINITY)
            until_line(dev.stdout, '"state kept again"')
            limit_files(dev.pid, 1)
            assert request("POST", maps, {"metadata": {"name": "b"}}).status == 201
        finally:
            dev.terminate()
        rest = dev.stdout.read()
    assert dev.returncode == 1
    assert f"--state {tmp_path}: File too large" in rest
    assert "Traceback" not in rest


def until_line(output: IO[str], words: str) -> None:
    """Read lines until one has these words; at the end of the output none has them."""
    assert any(words in line for line in output), f"dev ended without {words}"


def limit_files(pid: int, size: int) -> None:
    _, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (size, hard))


@pytest.mark.parametrize("key", ["listen", "operations.listen"])
def test_a_port_in_use_is_one_line_with_the_remedy(program: Programs, key: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as holder:
        taken = f"127.0.0.1:{holder.getsockname()[1]}"
        settings = {"listen": taken} if key == "listen" else {"operations": {"listen": taken}}
        dev = program.start("dev", **settings)
        assert dev.exit_code() == 2
    (line,) = [line for line in dev.log.read_text().splitlines() if '"error"' in line]
    assert f"{key}: {taken} is in use: end what listens there, or choose another" in line
    assert "Traceback" not in dev.log.read_text()


def test_one_name_for_all_namespaces_is_refused_with_a_reason(program: Programs) -> None:
    same = dict.fromkeys(("stock", "instance", "system"), "default")
    dev = program.start("dev", namespaces=same)
    assert dev.exit_code() == 2
    said = dev.log.read_text()
    assert "namespaces.instance: is the same namespace as stock: each needs its own" in said
    assert "Traceback" not in said


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_dev_within_the_grace_despite_open_streams(
    program: Programs, number: int
) -> None:
    dev = program.dev()
    kubeconfig = Path(printed(dev, "kubeconfig"))
    document = yaml.safe_load(kubeconfig.read_text())
    host, port = document["clusters"][0]["cluster"]["server"].removeprefix("http://").split(":")
    with (
        socket.create_connection((host, int(port))) as watch,
        socket.create_connection(("127.0.0.1", int(dev.address.rpartition(":")[2]))) as idle,
    ):
        watch.sendall(b"GET /api/v1/pods?watch=true HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert b"200 OK" in watch.recv(4096)
        idle.sendall(b"GET /api/v1/health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert b"200 OK" in idle.recv(4096)
        began = time.monotonic()
        os.kill(dev.pid, number)
        assert dev.exit_code() == 0
        assert time.monotonic() - began < GRACE_SECONDS
    assert "Traceback" not in dev.log.read_text()
    eventually_blocking(kubeconfig.exists, not_)
