"""A real node beside a control plane: a container runtime, the kubelet, kube-proxy and DNS.

It starts inside an enclosure, which removes all of it again.
"""

import json
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

from tests.eventually import eventually_blocking
from tests.proofs.real_cluster.controlplane import ControlPlane
from tests.proofs.real_cluster.processes import Keeper, tail_of
from tests.proofs.real_node import configuration
from tests.proofs.real_node.configuration import NAME, Layout

NOWHERE = Path("/nonexistent")
START_SECONDS = 60.0
GPUS = 8


class NodeError(Exception):
    """A program of the node ended or refused a command; the message carries its output."""


class Node:
    """A started node: its programs, and how to stop one of them."""

    def __init__(self, plane: ControlPlane, keeper: Keeper, layout: Layout, logs: Path) -> None:
        self.plane = plane
        self.layout = layout
        self.logs = logs
        self._keeper = keeper
        self._commands = configuration.commands(layout)
        self._started_at = 0.0

    def start(self, name: str) -> None:
        """Start a program; after a kill it has the same command and data."""
        self._started_at = time.time()
        self._keeper.start(name, self._commands[name], self._log(name))

    def kill(self, name: str) -> None:
        """Kill a program at once, as a crash would; the Pods stay."""
        self._keeper.kill(name)

    def ctr(self, *arguments: str) -> str:
        command = ["ctr", f"--address={self.layout.socket}", "--namespace=k8s.io", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise NodeError(f"{' '.join(command)}: {done.stderr.strip()}")
        return done.stdout

    def take_image(self, archive: Path) -> None:
        """Import an image, with the same effect as a pull."""
        self.ctr("images", "import", str(archive))

    def wait_until_ready(self) -> None:
        """Return when the kubelet reports Ready after the last start of any program."""
        self._wait("containerd", self._has_runtime)
        self._wait("kubelet", self._is_ready)
        self.pretend_gpus()

    def pretend_gpus(self, count: int = GPUS) -> None:
        """Add GPUs to the node's status; Kubernetes checks no device of an unknown vendor.

        A kubelet removes them once after its start.
        """
        resources = {"nvidia.com/gpu": str(count)}
        patch = json.dumps({"status": {"capacity": resources, "allocatable": resources}})
        target = ("node", NAME, "--subresource=status", "--type=merge")

        def holds() -> bool:
            self.plane.kubectl("patch", *target, "-p", patch)
            return resources.items() <= dict(self._status()["allocatable"]).items()

        self._wait("kubelet", holds)

    def log_tails(self) -> dict[str, str]:
        return {name: tail_of(self._log(name)) for name in self._commands}

    def _bring_up(self, images: Iterable[Path]) -> None:
        self.start("containerd")
        self._wait("containerd", self._has_runtime)
        for archive in images:
            self.take_image(archive)
        for name in self._commands:
            if name != "containerd":
                self.start(name)
        self.wait_until_ready()

    def _log(self, name: str) -> Path:
        return self.logs / f"{name}.log"

    def _wait(self, name: str, condition: Callable[[], bool]) -> None:
        def has_come() -> bool:
            code = self._keeper.poll(name)
            if code is not None:
                raise NodeError(f"{name} ended with {code}:\n{tail_of(self._log(name))}")
            return condition()

        eventually_blocking(
            has_come, within_seconds=START_SECONDS, explain=lambda: tail_of(self._log(name))
        )

    def _has_runtime(self) -> bool:
        try:
            return bool(self.ctr("version"))
        except NodeError:
            return False

    def _is_ready(self) -> bool:
        try:
            conditions = self._status().get("conditions", [])
        except OSError:  # not registered yet
            return False
        return any(
            one["type"] == "Ready"
            and one["status"] == "True"
            and datetime.fromisoformat(one["lastHeartbeatTime"]).timestamp() > self._started_at
            for one in conditions
        )

    def _status(self) -> dict[str, Any]:
        status: dict[str, Any] = self.plane.request("GET", f"/api/v1/nodes/{NAME}")["status"]
        return status


@contextmanager
def node(
    plane: ControlPlane, layout: Layout, logs: Path, images: Iterable[Path]
) -> Iterator[Node]:
    """Yield a node that is ready and has the images."""
    layout.data.mkdir()
    configuration.write_files(layout)
    keeper = Keeper(Path(tempfile.mkdtemp(prefix="gpuruntime-keeper-")), NOWHERE)
    try:
        made = Node(plane, keeper, layout, logs)
        made._bring_up(images)
        yield made
    finally:
        keeper.close()
