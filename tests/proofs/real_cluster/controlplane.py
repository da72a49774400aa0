"""A real control plane on loopback: etcd, kube-apiserver, its controllers, the scheduler, kwok.

Several control planes can run side by side. Each ends with its context. If the process that
started it dies, its keeper ends it. The data is deleted and the logs stay.
"""

import json
import secrets
import ssl
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import attrs

from tests.proofs.real_cluster import programs
from tests.proofs.real_cluster.processes import Keeper, reserved_port, tail_of

START_SECONDS = 90.0
POLL_SECONDS = 0.1
# The in-tree provisioner of hostPath volumes writes only here.
HOST_PATH_ROOT = Path("/tmp/hostpath_pv")


class ControlPlaneError(subprocess.SubprocessError):
    """A program ended or was not ready in time; the message carries the tail of its log."""


@attrs.frozen(kw_only=True)
class Options:
    """Size and extra flags of a control plane; the last flag of a name wins."""

    nodes: int = 2
    gpus_per_node: int = 1024
    address: str = "127.0.0.1"
    apiserver_flags: tuple[str, ...] = ()
    controller_manager_flags: tuple[str, ...] = ()
    kwok_flags: tuple[str, ...] = ()


class ControlPlane:
    """A started control plane: its address and credentials, and control of its programs."""

    def __init__(self, layout: programs.Layout, keeper: Keeper, options: Options) -> None:
        self.layout = layout
        self._keeper = keeper
        self._commands = {
            "etcd": programs.etcd(layout),
            "kube-apiserver": [*programs.apiserver(layout), *options.apiserver_flags],
            "kube-controller-manager": [
                *programs.controller_manager(layout),
                *options.controller_manager_flags,
            ],
            "kube-scheduler": programs.scheduler(layout),
            "kwok": [*programs.kwok(layout), *options.kwok_flags],
        }

    @property
    def url(self) -> str:
        return self.layout.url

    @property
    def token(self) -> str:
        """Return a bearer token of the group system:masters."""
        return self.layout.token

    @property
    def certificate(self) -> Path:
        return self.layout.certificate

    @property
    def kubeconfig(self) -> Path:
        return self.layout.kubeconfig

    def start(self, name: str) -> None:
        """Start a program; after a kill it has the same command, ports and data."""
        log = self.layout.logs / f"{name}.log"
        program = str(self.layout.binaries / name)
        self._keeper.start(name, [program, *self._commands[name]], log)

    def kill(self, name: str) -> None:
        """Kill a program at once, as a crash would."""
        self._keeper.kill(name)

    def wait_until_ready(self) -> None:
        self._wait("kube-apiserver", self._is_ready)

    def request(self, method: str, path: str, body: object = None) -> Any:
        """Send one request for the harness or for set-up; raise HTTPError if the server rejects
        it.
        """
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, headers, method=method)
        with urllib.request.urlopen(request, timeout=10, context=self._tls()) as answer:
            return json.load(answer)

    def kubectl(self, *arguments: str, stdin: str = "") -> str:
        """Return the output of kubectl, or raise ControlPlaneError with its error output."""
        program = str(self.layout.binaries / "kubectl")
        command = [program, f"--kubeconfig={self.kubeconfig}", *arguments]
        done = subprocess.run(command, input=stdin, capture_output=True, text=True, check=False)
        if done.returncode:
            raise ControlPlaneError(f"kubectl {' '.join(arguments)}: {done.stderr.strip()}")
        return done.stdout

    def audit_events(self, start: int = 0) -> Iterator[dict[str, Any]]:
        """Yield every request that ended since the log had this size, ordered by its end."""
        with self.layout.audit_log.open("rb") as log:
            log.seek(start)
            for line in log:
                if line.endswith(b"\n"):  # the last line may still be half written
                    yield json.loads(line)

    def audit_size(self) -> int:
        """Return the log's size in bytes; the API server appends each event in one write."""
        return self.layout.audit_log.stat().st_size

    def compact(self, resource_version: int) -> None:
        """Compact etcd, so that it forgets the versions before this one."""
        url = f"{self.layout.etcd_url}/v3/kv/compaction"
        body = json.dumps({"revision": str(resource_version), "physical": True}).encode()
        with urllib.request.urlopen(urllib.request.Request(url, body), timeout=10) as answer:
            answer.read()

    def log_tails(self) -> dict[str, str]:
        return {name: tail_of(self.layout.logs / f"{name}.log") for name in self._commands}

    def _bring_up(self, options: Options) -> None:
        self.start("etcd")
        self.start("kube-apiserver")
        self.wait_until_ready()
        for name in ("kube-controller-manager", "kube-scheduler", "kwok"):
            self.start(name)
        self.request("POST", "/apis/storage.k8s.io/v1/storageclasses", _storage_class())
        for number in range(options.nodes):
            self.request(
                "POST", "/api/v1/nodes", fake_node(f"gpu-{number}", options.gpus_per_node)
            )
        self._wait("kube-controller-manager", self._has_service_account)
        self._wait("kwok", self._has_ready_nodes)

    def _wait(self, name: str, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + START_SECONDS
        while not self._holds(condition):
            exit_code = self._keeper.poll(name)
            if exit_code is not None or time.monotonic() > deadline:
                state = "is not ready" if exit_code is None else f"ended with {exit_code}"
                tail = tail_of(self.layout.logs / f"{name}.log")
                raise ControlPlaneError(f"{name} {state}; the end of its log:\n{tail}")
            time.sleep(POLL_SECONDS)

    @staticmethod
    def _holds(condition: Callable[[], bool]) -> bool:
        try:
            return condition()
        except OSError:  # refused, reset, not found yet, or no certificate written yet
            return False

    def _is_ready(self) -> bool:
        headers = {"Authorization": f"Bearer {self.token}"}
        request = urllib.request.Request(f"{self.url}/readyz", headers=headers)
        with urllib.request.urlopen(request, timeout=5, context=self._tls()) as answer:
            return bool(answer.status == 200)

    def _has_service_account(self) -> bool:
        return bool(self.request("GET", "/api/v1/namespaces/default/serviceaccounts/default"))

    def _has_ready_nodes(self) -> bool:
        return all(
            any(one["type"] == "Ready" for one in node["status"].get("conditions", []))
            for node in self.request("GET", "/api/v1/nodes")["items"]
        )

    def _tls(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=self.certificate)


@contextmanager
def control_plane(
    binaries: Path, logs: Path, options: Options | None = None
) -> Iterator[ControlPlane]:
    """Yield a control plane whose nodes are ready and whose default namespace accepts Pods."""
    options = options or Options()
    with ExitStack() as stack:
        data = Path(tempfile.mkdtemp(prefix="gpuruntime-cluster-"))
        keeper = Keeper(data, HOST_PATH_ROOT)
        stack.callback(keeper.close)
        ports = [stack.enter_context(reserved_port()) for _ in range(3)]
        layout = _layout(binaries, data, logs, ports, options.address)
        programs.write_files(layout)
        plane = ControlPlane(layout, keeper, options)
        plane._bring_up(options)
        yield plane


def fake_node(name: str, gpus: int, labels: Iterable[tuple[str, str]] = ()) -> dict[str, Any]:
    """Return a node that kwok simulates: it has the stated size and runs every Pod at once."""
    size = {
        "cpu": "512",
        "memory": "4Ti",
        "pods": "2000",
        "ephemeral-storage": "100Ti",
        "nvidia.com/gpu": str(gpus),
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {
                "kubernetes.io/hostname": name,
                "nvidia.com/gpu.product": "NVIDIA-TEST",
                **dict(labels),
            },
        },
        "status": {"allocatable": size, "capacity": size},
    }


def _storage_class() -> dict[str, Any]:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {
            "name": "standard",
            "annotations": {"storageclass.kubernetes.io/is-default-class": "true"},
        },
        "provisioner": "kubernetes.io/host-path",
    }


def _layout(
    binaries: Path, data: Path, logs: Path, ports: list[int], address: str
) -> programs.Layout:
    return programs.Layout(
        binaries=binaries,
        data=data,
        logs=logs,
        address=address,
        etcd_port=ports[0],
        peer_port=ports[1],
        api_port=ports[2],
        token=secrets.token_hex(16),
    )
