"""The control plane as Pods on a real node, from the manifests and an operator's overlay."""

import json
import time
from collections.abc import Mapping
from operator import not_
from pathlib import Path
from typing import Any

from tests.eventually import eventually_blocking
from tests.proofs.real_cluster.controlplane import ControlPlane, ControlPlaneError
from tests.proofs.real_node import overlay, pods
from tests.proofs.real_node.callers import retrying_caller
from tests.proofs.real_node.overlay import SYSTEM, Part
from tests.rooms.manifests.overlays import MANIFESTS

INSTANCE = "runtime-instance"
STOCK = "runtime-stock"
ADDRESS = f"http://gpuruntime-api.{SYSTEM}.svc.cluster.local:8080"
# A shell that is the first process of a Pod ignores SIGTERM unless it traps it.
RESTS = {"command": ["sh", "-c", "trap exit TERM; sleep 1d & wait"]}
# Two cores run everything, so a unit's default requests are small here.
MANAGER = {"podDefaults": {"cpu": "20m", "memory": "64Mi", "ephemeralStorage": "100Mi"}}
CONTROL_PLANE = {"manager": Part(settings=MANAGER)}
# Long, because two cores run everything else meanwhile.
ROLLOUT_SECONDS = 180


class Deployment:
    """The objects of the manifests under their own names, and a caller of the api."""

    def __init__(self, plane: ControlPlane, folder: Path) -> None:
        self.plane = plane
        self.caller = retrying_caller(ADDRESS)
        self._folder = folder

    def apply(self, parts: Mapping[str, Part] = CONTROL_PLANE) -> None:
        """Apply the manifests with this overlay; other parts roll out the roles they configure."""
        overlay.write(self._folder, parts)
        self.plane.kubectl("apply", "-k", str(self._folder))
        self.wait_until_rolled_out(*overlay.bases_of(parts))

    def remove(self, base: str) -> None:
        """Delete the objects of one folder of the manifests."""
        self.plane.kubectl("delete", "-k", str(MANIFESTS / base), "--ignore-not-found")

    def wait_until_rolled_out(self, *bases: str) -> None:
        for base in bases or ("control-plane",):
            for role in overlay.BASES[base]:
                self._wait_for_rollout(role)
        eventually_blocking(lambda: pods.answers(f"{ADDRESS}/api/v1/health"))

    def _wait_for_rollout(self, role: str) -> None:
        target = ("-n", SYSTEM, f"deployment/gpuruntime-{role}")
        try:
            self.plane.kubectl("rollout", "status", *target, f"--timeout={ROLLOUT_SECONDS}s")
        except ControlPlaneError as error:
            selector = f"app.kubernetes.io/name=gpuruntime-{role}"
            said = self.plane.kubectl("logs", "-n", SYSTEM, "-l", selector, "--tail=5")
            raise ControlPlaneError(f"{error}; the ends of its logs:\n{said}") from error

    def pods(self, role: str) -> list[dict[str, Any]]:
        """Return the role's Pods that are not being deleted."""
        return self.pods_of(SYSTEM, f"app.kubernetes.io/name=gpuruntime-{role}")

    def pods_of(self, namespace: str, selector: str = "") -> list[dict[str, Any]]:
        found = self.plane.kubectl("get", "pods", "-n", namespace, "-l", selector, "-o", "json")
        items: list[dict[str, Any]] = json.loads(found)["items"]
        return [item for item in items if "deletionTimestamp" not in item["metadata"]]

    def leader(self) -> str:
        """Return the Pod that holds the manager's lease, or an empty text."""
        path = f"/apis/coordination.k8s.io/v1/namespaces/{SYSTEM}/leases/gpuruntime-manager"
        lease = eventually_blocking(lambda: self.plane.request("GET", path))
        return str(lease["spec"].get("holderIdentity", ""))

    def exec(self, pod: str, *command: str) -> str:
        return self.plane.kubectl("exec", "-n", SYSTEM, pod, "--", *command)

    def seed(self, spec: str, replicas: int, **body: Any) -> None:
        """Seed stock and return when it is ready."""
        operation = f"stock-{spec}-{time.monotonic_ns()}"
        wanted = {"operationID": operation, "specName": spec, "replicas": replicas, **body}
        answer = self.caller.post("/operator/stock-units", wanted)
        assert answer.status in (200, 202), answer
        self.caller.until(f"/operator/jobs/{operation}", lambda job: job["ready"] == replicas)

    def claim(self, spec: str, name: str, **body: Any) -> dict[str, Any]:
        operation = f"unit-{name}-{time.monotonic_ns()}"
        wanted = {"operationID": operation, "specName": spec, "name": name, **body}
        answer = self.caller.post("/gpu-units", wanted)
        assert answer.status in (200, 201), answer
        view: dict[str, Any] = answer.data
        return view

    def clear(self) -> None:
        """Delete all units, stock and storages, and wait until their Pods are gone."""
        kinds = "gpuunits,stockpools,gpustorages"
        for namespace in (INSTANCE, STOCK):
            self.plane.kubectl("delete", kinds, "--all", "-n", namespace, "--wait=false")
            force = ("--all", "--force", "--grace-period=0", "--wait=false")
            self.plane.kubectl("delete", "pods", *force, "-n", namespace)
        eventually_blocking(lambda: self.pods_of(INSTANCE) + self.pods_of(STOCK), not_)

    def ready(self, name: str) -> dict[str, Any]:
        view: dict[str, Any] = self.caller.until(
            f"/gpu-units/{name}",
            lambda unit: (
                unit["phase"] == "Ready" and unit["observedGeneration"] == unit["generation"]
            ),
        )
        return view
