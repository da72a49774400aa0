"""Functions on dev: from a call to the answer of a real process, and back to no process."""

import os
import re
import signal
import sys
import tempfile
from collections.abc import Iterator
from datetime import datetime
from operator import not_
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.eventually import eventually_blocking
from tests.proofs.real_cluster.product import Caller, request
from tests.rooms.roles.programs import Programs, printed, programs

STOCK = {"operationID": "stock", "specName": "f1", "memory": "16Gi", "gpu": 1, "replicas": 12}
ECHO = ["python", "-m", "gpuruntime.framework.echo"]
PAYLOAD = {"text": "grüße", "number": 1.5, "nothing": None}
PODS = "/api/v1/namespaces/runtime-instance/pods"


class Dev:
    """A dev process with stock, and the functions that tests declare."""

    def __init__(self, program: Programs) -> None:
        self.process = program.dev()
        self.caller = Caller(self.process.address)
        assert self.caller.post("/operator/stock-units", STOCK).status == 202
        self.caller.until("/operator/jobs/stock", lambda job: job["ready"] == STOCK["replicas"])
        kubeconfig = yaml.safe_load(Path(printed(self.process, "kubeconfig")).read_text())
        self._server = kubeconfig["clusters"][0]["cluster"]["server"]

    def declare(self, name: str, command: list[str] = ECHO, **serverless: Any) -> None:
        answer = self.caller.post(
            "/gpu-units",
            {
                "operationID": f"function-{name}",
                "name": name,
                "specName": "f1",
                "image": "python:3.12",
                "template": {"command": command},
                "serverless": {"requestID": name, **serverless},
            },
        )
        assert answer.status == 201, answer.document

    def call(self, function: str, payload: Any = PAYLOAD) -> dict[str, Any]:
        """Call a function and wait for the end of the invocation."""
        answer = self.caller.post(
            "/serverless/invocations",
            {"serverlessRequestID": function, "mode": "sync", "payload": payload},
        )
        assert answer.status == 200, answer.document
        data: dict[str, Any] = answer.data
        return data

    def pod_of(self, worker: str) -> Any:
        pods = request("GET", self._server + PODS).document["items"]
        (pod,) = [pod for pod in pods if pod["metadata"]["name"].startswith(f"unit-{worker}-")]
        return pod

    def number_of(self, worker: str, container: str) -> int:
        """Return the process id of a container."""
        message = self.pod_of(worker)["status"]["message"]
        (number,) = re.findall(rf"(\d+) \({container}\)", message)
        return int(number)

    def workers_of(self, function: str) -> list[str]:
        units = self.caller.get("/gpu-units").data
        return [unit["name"] for unit in units if unit["name"].startswith(f"{function}-w-")]


@pytest.fixture(scope="module")
def dev() -> Iterator[Dev]:
    with (
        tempfile.TemporaryDirectory() as folder,
        programs(Path(folder)) as program,
    ):
        yield Dev(program)


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def seconds_between(first: str, second: str) -> float:
    return (datetime.fromisoformat(second) - datetime.fromisoformat(first)).total_seconds()


def test_a_call_claims_a_worker_that_answers_it(dev: Dev) -> None:
    dev.declare("echo")
    first = dev.call("echo")
    assert (first["state"], first["statusCode"], first["attempt"]) == ("succeeded", 200, 1)
    assert first["body"] == PAYLOAD
    assert first["workerName"] == "echo-w-1"
    second = dev.call("echo", ["again"])
    assert (second["body"], second["workerName"]) == (["again"], "echo-w-1")


def test_the_output_of_a_worker_is_its_log(dev: Dev) -> None:
    dev.declare("logs")
    worker = dev.call("logs")["workerName"]
    log = dev.caller.get(f"/gpu-units/{worker}/logs?container=runtime")
    assert b"serving on" in log.document


def test_a_command_that_does_not_run_here_is_reported(dev: Dev) -> None:
    dev.declare("other", ["/bin/serve"], minAvailableCount=1)
    unit = dev.caller.until("/gpu-units/other-w-1", lambda unit: unit["phase"] == "Failed")
    assert "begins with python" in unit["message"]
    assert dev.caller.delete("/gpu-units/other").status == 204


@pytest.mark.serverless
def test_only_the_first_call_waits_for_a_worker(
    dev: Dev, capsys: pytest.CaptureFixture[str]
) -> None:
    dev.declare("timed")
    cold, warm = times_of(dev, dev.call("timed")), times_of(dev, dev.call("timed"))
    with capsys.disabled():
        sys.stdout.write(f"\nfirst call, seconds since it was accepted: {cold}\n")
        sys.stdout.write(f"next call: {warm['answered']}\n")
    assert list(cold) == sorted(cold, key=cold.__getitem__)
    assert warm["answered"] < cold["answered"] / 2


def times_of(dev: Dev, ended: dict[str, Any]) -> dict[str, float]:
    """Return seconds since acceptance. A reused worker was claimed before it."""
    unit = dev.caller.get(f"/gpu-units/{ended['workerName']}").data
    moments = {
        "claimed": unit["timeline"]["claimedAt"],
        "called": ended["startedAt"],
        "answered": ended["completedAt"],
    }
    return {
        name: round(seconds_between(ended["acceptedAt"], moment), 3)
        for name, moment in moments.items()
    }


@pytest.mark.serverless
def test_an_idle_worker_is_removed_with_its_processes(dev: Dev) -> None:
    dev.declare("brief", idleTimeoutSeconds=1)
    worker = dev.call("brief")["workerName"]
    number = dev.number_of(worker, "runtime")
    eventually_blocking(lambda: dev.workers_of("brief"), not_)
    eventually_blocking(lambda: is_running(number), not_)
    assert dev.call("brief")["body"] == PAYLOAD, "and the next one comes when it is needed"


@pytest.mark.serverless
def test_a_killed_function_is_restarted_in_its_pod(dev: Dev) -> None:
    dev.declare("killed")
    worker = dev.call("killed")["workerName"]
    sidecar, number = dev.number_of(worker, "worker"), dev.number_of(worker, "runtime")
    os.kill(number, signal.SIGKILL)
    answered = dev.call("killed")
    assert (answered["body"], answered["workerName"]) == (PAYLOAD, worker)
    pod = dev.pod_of(worker)
    (main,) = pod["status"]["containerStatuses"]
    assert main["restartCount"] == 1
    assert dev.number_of(worker, "worker") == sidecar
    assert dev.workers_of("killed") == [worker]


@pytest.mark.serverless
def test_more_calls_than_a_worker_accepts_claim_more_workers(dev: Dev) -> None:
    slow = "import time; from gpuruntime.framework.server import serve; "
    slow += "serve(lambda call: time.sleep(call.payload))"
    dev.declare("slow", ["python", "-c", slow], maxWorkers=2)
    for number in range(2):
        body = {"invocationID": f"i{number}", "serverlessRequestID": "slow", "payload": 5}
        assert dev.caller.post("/serverless/invocations", body).status == 202
    ended = [
        dev.caller.until(
            f"/serverless/invocations/i{number}?serverlessRequestID=slow",
            lambda view: view["state"] == "succeeded",
        )
        for number in range(2)
    ]
    assert {view["workerName"] for view in ended} == {"slow-w-1", "slow-w-2"}


@pytest.mark.serverless
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_the_processes_of_workers_end_with_dev(tmp_path: Path, number: int) -> None:
    with programs(tmp_path) as program:
        dev = Dev(program)
        dev.declare("echo")
        worker = dev.call("echo")["workerName"]
        left = [dev.number_of(worker, name) for name in ("worker", "runtime")]
        os.kill(dev.process.pid, number)
        eventually_blocking(lambda: [pid for pid in left if is_running(pid)], not_)
