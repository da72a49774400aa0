"""Units whose commands run as processes of this machine, on a dev as a person starts it."""

import asyncio
import os
import signal
import socket
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from gpuruntime.kube.client import Client
from gpuruntime.kube.connect.sources import Kubeconfig
from gpuruntime.kube.http import connect
from gpuruntime.kube.pod_exec import Command, execute
from gpuruntime.kube.pod_forward import forward
from gpuruntime.models.kubernetes.metadata import Key
from gpuruntime.models.kubernetes.pods import PODS
from tests.eventually import eventually_blocking
from tests.proofs.real_cluster.product import Caller, Process
from tests.rooms.roles.programs import Programs, printed, programs

INSTANCE = "runtime-instance"
PORT = 8000
ENDLESS = "import time\nprint('up', flush=True)\nwhile True: time.sleep(60)"
STOCK = {"operationID": "stock", "specName": "g1", "replicas": 12}
numbers = count(1)


class Dev:
    """A dev with a state folder, and stock for each test's unit."""

    def __init__(self, program: Programs, state: Path) -> None:
        self._program = program
        self._state = state
        self.start()
        assert self.caller.post("/operator/stock-units", STOCK).status == 202
        self.caller.until("/operator/jobs/stock", lambda job: job["ready"] == STOCK["replicas"])

    def start(self) -> None:
        self.process: Process = self._program.dev("--state", str(self._state), nats={"url": ""})
        self.caller = Caller(self.process.address)

    def unit(self, *command: str, port: int = 0, phase: str = "Ready", **envs: str) -> Any:
        """Create a unit and wait for its phase."""
        name = f"u{next(numbers)}"
        template: dict[str, Any] = {
            "command": list(command),
            "envs": [{"name": key, "value": value} for key, value in envs.items()],
        }
        if port:
            template["ports"] = [{"name": "web-ui", "port": port}]
        body = {"operationID": name, "name": name, "specName": "g1", "image": "any"}
        assert self.caller.post("/gpu-units", {**body, "template": template}).status == 201
        return self.until(name, phase)

    def until(self, name: str, phase: str) -> Any:
        return self.caller.until(f"/gpu-units/{name}", lambda unit: unit["phase"] == phase)

    def log(self, name: str, **query: str) -> str:
        asked = "&".join(f"{key}={value}" for key, value in query.items())
        url = f"{self.process.address}/api/v1/gpu-units/{name}/logs?{asked}"
        return text_at(url)

    @asynccontextmanager
    async def pod_of(self, name: str) -> AsyncIterator[tuple[Client, Key]]:
        kubeconfig = Kubeconfig(printed(self.process, "kubeconfig"))
        transport = await connect(kubeconfig, now=lambda: datetime.now(UTC))
        try:
            client = Client(transport)
            page = await client.list_page(PODS, namespace=INSTANCE, limit=0)
            (pod,) = [
                each.metadata.key
                for each in page.items
                if each.metadata.name.startswith(f"unit-{name}-")
            ]
            yield client, pod
        finally:
            await transport.close()

    async def run(self, name: str, *arguments: str, **more: Any) -> tuple[int | None, str]:
        command = Command(container="runtime", arguments=arguments, **more)
        async with self.pod_of(name) as (client, pod), execute(client, pod, command) as execution:
            output = [each.data async for each in execution.output()]
            return execution.exit_code, b"".join(output).decode()


@pytest.fixture(scope="module")
def dev(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dev]:
    folder = tmp_path_factory.mktemp("dev")
    with programs(folder) as program:
        yield Dev(program, folder / "state")


def pid_of(unit: Any) -> int:
    """Return the id of the process, which the unit's message names."""
    _, _, words = unit["message"].partition("runs as processes of this machine: ")
    return int(words.split()[0])


def text_at(url: str | urllib.request.Request) -> str:
    with urllib.request.urlopen(url, timeout=10) as answer:
        return str(answer.read().decode())


def through_the_gateway(dev: Dev, unit: Any) -> str:
    """Return the page with a ticket, at the host name that people type on dev."""
    asked = {"uses": ["http"], "port": "web-ui"}
    ticket = dev.caller.post(f"/gpu-units/{unit['name']}/tickets", asked).data["ticket"]
    port = unit["access"]["urls"]["web-ui"].rpartition(":")[2]
    headers = {
        "Host": f"{PORT}--{unit['name']}.localhost:{port}",
        "Authorization": f"Bearer {ticket}",
    }
    return text_at(urllib.request.Request(f"http://127.0.0.1:{port}/page", headers=headers))


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def test_a_unit_answers_at_its_port_with_the_files_of_its_home(dev: Dev) -> None:
    unit = dev.unit("python", "-m", "http.server", str(PORT), "--bind", "0.0.0.0", port=PORT)
    assert is_running(pid_of(unit))
    place = unit["message"].rpartition(f", {PORT} at ")[2]
    written = await dev.run(unit["name"], "sh", "-c", 'echo "from $HOME" > page; pwd')
    assert written[0] == 0
    home = written[1].strip()
    async with (
        dev.pod_of(unit["name"]) as (client, pod),
        forward(client, pod, PORT) as forwarding,
    ):
        await forwarding.write(b"GET /page HTTP/1.0\r\n\r\n")
        answer = b"".join([piece async for piece in forwarding.output()])
    assert answer.decode().endswith(f"from {home}\n")
    assert await asyncio.to_thread(text_at, f"http://{place}/page") == f"from {home}\n"
    assert await asyncio.to_thread(through_the_gateway, dev, unit) == f"from {home}\n"
    assert Path(home).parts[-1] == "runtime.home"
    assert '"GET /page HTTP/1.0" 200' in dev.log(unit["name"])


async def test_commands_end_with_their_exit_code_over_pipes_and_on_a_terminal(dev: Dev) -> None:
    name = dev.unit("python", "-c", ENDLESS)["name"]
    assert await dev.run(name, "sh", "-c", "echo out; exit 7") == (7, "out\n")
    found = await dev.run(name, "sh", "-c", "test -t 0 && exit 7", has_terminal=True)
    assert found[0] == 7
    code, output = await dev.run(name, "python", "-c", "import gpuruntime; print('imports')")
    assert (code, output) == (0, "imports\n")


async def test_variables_tell_the_ports(dev: Dev) -> None:
    """A program that reads PORT listens where its readiness probe and its callers look."""
    script = 'exec python -m http.server --bind 127.0.0.1 "$PORT"'
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    unit = dev.unit("bash", "-c", script, port=port)
    code, output = await dev.run(unit["name"], "sh", "-c", "echo $PORT $GPURUNTIME_PORT_WEB_UI")
    assert (code, output) == (0, f"{port} {port}\n")


def test_a_port_that_is_taken_names_its_holder_until_it_is_free(dev: Dev) -> None:
    with socket.create_server(("127.0.0.1", 0)) as holder:
        port = holder.getsockname()[1]
        unit = dev.unit("bash", "-c", f"python -m http.server {port}", port=port, phase="Failed")
        assert unit["reason"] == "PodStartupFailed"
        comm = Path("/proc/self/comm").read_text().strip()
        assert (
            f"port {port} of this machine is taken by {comm} (process {os.getpid()})"
            in (unit["message"])
        )
    dev.until(unit["name"], "Ready")


def test_a_program_that_never_listens_is_told_of_its_port(dev: Dev) -> None:
    unit = dev.unit("python", "-c", ENDLESS, "8000", port=PORT, phase="Progressing")
    words = f"container runs, port {PORT} does not take connections since "
    dev.caller.until(f"/gpu-units/{unit['name']}", lambda unit: words in unit["message"])


def test_a_program_that_ends_is_started_again_and_shows_its_last_words(dev: Dev) -> None:
    unit = dev.unit("sh", "-c", "echo no weights; exit 3", phase="Failed")
    assert "exit code 3: no weights" in unit["message"]
    path = f"/gpu-units/{unit['name']}"
    dev.caller.until(path, lambda unit: "CrashLoopBackOff: exit code 3" in unit["message"])
    assert dev.log(unit["name"], previous="true") == "no weights\n"
    assert dev.caller.put(path, {"template": {"command": ["sh", "-c", "sleep 60"]}}).status == 200
    assert is_running(pid_of(dev.until(unit["name"], "Ready")))


def test_a_suspended_unit_has_no_process_and_a_resumed_one_a_new_home(dev: Dev) -> None:
    unit = dev.unit("sh", "-c", "ls; touch here; exec sleep 60")
    path, before = f"/gpu-units/{unit['name']}", pid_of(unit)
    dev.caller.put(path, {"suspended": True})
    dev.until(unit["name"], "Suspended")
    assert not is_running(before)
    dev.caller.put(path, {"suspended": False})
    after = pid_of(dev.until(unit["name"], "Ready"))
    assert (is_running(after), dev.log(unit["name"])) == (True, "")
    dev.caller.delete(path)
    eventually_blocking(lambda: not is_running(after))


@pytest.mark.parametrize(
    ("command", "why"),
    [
        pytest.param((), "it has no command, and only commands run here that begin", id="none"),
        pytest.param(("serve",), "its command begins with serve, and only these", id="another"),
    ],
)
def test_a_simulated_unit_says_so_in_its_status_and_its_log(
    dev: Dev, command: tuple[str, ...], why: str
) -> None:
    unit = dev.unit(*command)
    assert unit["message"].startswith("the Pod is ready; simulated: ")
    assert why in unit["message"]
    assert dev.log(unit["name"]).startswith("simulated: ")
    assert why in dev.log(unit["name"])


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "http://8000--demo.localhost:8090"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Host": "evil.example"},
    ],
    ids=lambda headers: next(iter(f"{name} {value}" for name, value in headers.items())),
)
def test_a_foreign_page_runs_no_program(dev: Dev, headers: dict[str, str]) -> None:
    body = b'{"operationID": "evil", "name": "evil", "specName": "g1", "image": "any", '
    body += b'"template": {"command": ["sh", "-c", "echo evil"]}}'
    url = f"{dev.process.address}/api/v1/gpu-units"
    asked = urllib.request.Request(
        url, body, {"Content-Type": "application/json", **headers}, method="POST"
    )
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(asked, timeout=10)
    with caught.value as refused:
        assert refused.code == 403
    assert dev.caller.get("/gpu-units/evil").status == 404


def test_a_dev_that_is_killed_leaves_no_process_and_the_next_one_runs_its_units(dev: Dev) -> None:
    unit = dev.unit("sh", "-c", "sleep 1000 & echo $!; wait")
    pids = [pid_of(unit), int(dev.log(unit["name"]))]
    assert all(map(is_running, pids))
    eventually_blocking(lambda: journal_has(dev, unit["name"]))
    os.kill(dev.process.pid, signal.SIGKILL)
    dev.process.exit_code()
    eventually_blocking(lambda: not any(map(is_running, pids)))
    dev.start()
    dev.caller.until(
        f"/gpu-units/{unit['name']}",
        lambda again: "runs as processes" in again["message"] and pid_of(again) not in pids,
    )
    assert is_running(pid_of(dev.until(unit["name"], "Ready")))


def journal_has(dev: Dev, name: str) -> bool:
    folder = Path(printed(dev.process, "kubeconfig")).parent
    return any(
        f"unit-{name}".encode() in each.read_bytes()
        for each in folder.iterdir()
        if each.is_file() and each.name != "kubeconfig"
    )
