"""The whole chain for a test: every role of the product as processes, and all they need.

The embedded cluster is a separate process, which runs the Pods of functions as processes.
"""

import os
import re
import signal
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from operator import not_
from pathlib import Path
from typing import Any

import yaml

from tests.eventually import eventually_blocking
from tests.proofs.function_chain import function as counted
from tests.proofs.real_cluster.product import Caller, Process, request
from tests.rooms.bus.broker import Broker, broker
from tests.rooms.roles.programs import Programs, programs
from tests.rooms.serverless.results.database import PASSWORD, Database, database

# Short enough to wait for, and long enough for a busy machine.
ACK_WAIT_SECONDS = 3.0
PREFIX = "runtime"
SPEC = "f1"
PODS = "/api/v1/namespaces/runtime-instance/pods"
QUICK_ELECTION = {
    "enabled": True,
    "leaseDuration": "6s",
    "renewDeadline": "5s",
    "retryPeriod": "500ms",
}
# The two containers of a worker's Pod.
SIDECAR, MAIN = "worker", "runtime"


class Chain:
    """`roles` are keyed by name and number, such as `api-1`; a restarted one keeps its name."""

    def __init__(self, program: Programs, made: Broker, store: Database | None) -> None:
        self.broker = made
        self.database = store
        self.ledger = Path(program.folder, "ledger")
        self.ledger.touch()
        self.roles: dict[str, Process] = {}
        # The addresses of the API's replicas that run, or will in a moment.
        self.addresses: list[str] = []
        self._program = program
        kubeconfig = program.cluster()
        config = yaml.safe_load(kubeconfig.read_text())
        self.server = str(config["clusters"][0]["cluster"]["server"])
        self._settings: dict[str, Any] = {
            "kubernetes": {"kubeconfig": str(kubeconfig)},
            "nats": {"url": made.url, "subjectPrefix": PREFIX},
            "worker": {"ackWait": f"{ACK_WAIT_SECONDS}s"},
            "serverless": {"drain": "5s"},
            "leaderElection": QUICK_ELECTION,
            "results": _results_settings(program.folder, store),
        }

    def start(self, *names: str) -> None:
        """Start the roles and return when they are ready."""
        for name in names:
            role = name.partition("-")[0]
            self.roles[name] = self._program.start(role, **self._settings)
        for name in names:
            self.roles[name].wait_until_ready()
        self.addresses = [self.roles[name].address for name in self.of_role("api")]

    def restart(self, name: str) -> None:
        """Kill the role, as a crash does, start it again, and return when it is ready."""
        self.roles[name].kill()
        self.start(name)

    def of_role(self, role: str) -> list[str]:
        return [name for name in self.roles if name.partition("-")[0] == role]

    def leader(self, role: str) -> str:
        """Return the replica of the role that leads."""
        leads = {
            name: self.roles[name].metric("gpuruntime_lease_leading")
            for name in self.of_role(role)
        }
        return max(leads, key=lambda name: leads[name])

    @property
    def caller(self) -> Caller:
        return Caller(self.addresses[0])

    def stock(self, replicas: int) -> None:
        """Create a pool that always keeps this much stock free."""
        pool = {"operationID": "stock", "name": "stock", "specName": SPEC, "memory": "4Gi"}
        answer = self.caller.post("/operator/stockpools", {**pool, "replicas": replicas})
        assert answer.status in (200, 202), answer.document

    def declare(
        self, name: str, *, program: str = counted.__file__, told: str = "", **serverless: Any
    ) -> None:
        """Declare a function that runs the program with one argument."""
        answer = self.caller.post(
            "/gpu-units",
            {
                "operationID": f"function-{name}",
                "name": name,
                "specName": SPEC,
                "image": "python:3.12",
                "template": {"command": ["python", program, told or str(self.ledger)]},
                "serverless": {"requestID": name, **serverless},
            },
        )
        assert answer.status == 201, answer.document

    def until_ready(self, name: str, workers: int) -> None:
        """Wait until this many workers take calls."""
        self.caller.until(
            "/serverless/functions",
            lambda found: any(
                each["serverlessRequestID"] == name and each["workers"]["ready"] >= workers
                for each in found
            ),
            seconds=90,
        )

    def started(self) -> Counter[tuple[str, int]]:
        """Return how often each attempt of each invocation was started."""
        return Counter((line[0], int(line[1])) for line in self._lines())

    def started_twice(self) -> list[list[str]]:
        """Return the ledger lines of attempts that started more than once; none is correct."""
        often = {started for started, count in self.started().items() if count > 1}
        return [line for line in self._lines() if (line[0], int(line[1])) in often]

    def _lines(self) -> list[list[str]]:
        """Return the ledger as rows of invocation, attempt, worker and moment."""
        return [line.split() for line in self.ledger.read_text().splitlines()]

    def pids(self, name: str, container: str = SIDECAR) -> list[int]:
        """Return the running processes of one container of all workers of a function."""
        pods = request("GET", self.server + PODS).document["items"]
        return list(_pids(pods, f"unit-{name}-w-", container))

    def workers(self, name: str) -> list[str]:
        units = self.caller.get("/gpu-units?limit=200").data
        return [each["name"] for each in units if each["name"].startswith(f"{name}-w-")]

    def until_none(self, name: str, *, seconds: float = 60) -> None:
        eventually_blocking(lambda: self.workers(name), not_, within_seconds=seconds)


@contextmanager
def chain(*roles: str, with_database: bool = False, lines: Iterable[str] = ()) -> Iterator[Chain]:
    """Run these roles, with stock for a dozen workers; all of it ends with the context."""
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="chain-"))
        made = stack.enter_context(broker(*lines))
        store = stack.enter_context(database()) if with_database else None
        program = stack.enter_context(programs(Path(folder)))
        started = Chain(program, made, store)
        started.start(*roles)
        started.stock(12)
        yield started


def stop(pid: int) -> None:
    """Suspend the process and all its children until it is resumed."""
    os.killpg(pid, signal.SIGSTOP)


def go_on(pid: int) -> None:
    os.killpg(pid, signal.SIGCONT)


def kill(pid: int) -> None:
    os.killpg(pid, signal.SIGKILL)


def _pids(pods: list[dict[str, Any]], prefix: str, container: str) -> Iterator[int]:
    for pod in pods:
        if pod["metadata"]["name"].startswith(prefix):
            message = pod.get("status", {}).get("message", "")
            yield from (int(pid) for pid in re.findall(rf"(\d+) \({container}\)", message))


def _results_settings(folder: Path, store: Database | None) -> dict[str, Any]:
    if store is None:
        return {"store": "kv"}
    secret = folder / "password"
    secret.write_text(PASSWORD)
    return {"store": "postgres", "postgres": {"url": store.bare_url, "passwordFile": str(secret)}}
