"""An installation with many running units, and one unit in each other state of rest."""

import asyncio
import json
from collections.abc import Iterator
from typing import Any

from tests.eventually import eventually_blocking
from tests.proofs.product.audit_log import Request, requests_since, wait_until_quiet, writes_since
from tests.proofs.product.claims.concurrent_callers import (
    SMALL,
    concurrent_callers,
    order,
    seed,
    wait_until_running,
)
from tests.proofs.real_cluster.product import Caller, Installation, Process

UNITS = 200
CALLERS = 16
SPEC = "fleet.1"
PRESENT = "gpuruntime"
UNIT_LABEL = "runtime.lokiwager.io/unit"
WARM = 5
# Units that cannot start, with the reason that each of them reports.
STUCK: dict[str, tuple[str, dict[str, Any]]] = {
    "invalid": ("InvalidSpec", {"memory": "not-a-quantity"}),
    "greedy": ("PodUnschedulable", {"memory": "1Gi", "gpu": 5000}),
    "foreign": ("DeploymentSyncFailed", {"memory": "1Gi"}),
}


class Fleet:
    def __init__(self, made: Installation, manager: Process, apis: tuple[Process, ...]) -> None:
        self.made = made
        self.manager = manager
        self.program = PRESENT
        self.apis = apis
        self.caller = Caller(apis[0].address)

    def change_manager(self, program: str = PRESENT) -> int:
        """Replace the manager, and return once the new one has reconciled everything.

        Return the size of the audit log between the two.
        """
        assert self.manager.stop() == 0
        size = self.made.plane.audit_size()
        self.manager, self.program = self.made.manager(program=program), program
        self.manager.said("leading")
        self.wait_until_reconciled(0)
        return size

    def reconciles(self) -> float:
        return self.manager.metric("gpuruntime_reconciles_total")

    def wait_until_reconciled(self, since: float) -> None:
        """Return when all units were reconciled and the writes that follow have ended."""
        eventually_blocking(self.reconciles, lambda count: count >= since + UNITS)
        self.wait_until_quiet()

    def wait_until_quiet(self) -> None:
        wait_until_quiet(self.made.plane, self.made.system)

    def requests_since(self, size: int) -> Iterator[Request]:
        return requests_since(self.made.plane, size, self.made.system)

    def writes_since(self, size: int) -> list[Request]:
        return writes_since(self.made.plane, size, self.made.system)

    def key(self, name: str) -> str:
        return f"{self.made.instance}/{name}"

    def pods(self) -> dict[str, set[str]]:
        """Return the uids of each unit's Pods."""
        found: dict[str, set[str]] = {}
        for namespace in (self.made.stock, self.made.instance):
            for pod in self.made.objects("pods", namespace):
                unit = pod["metadata"]["labels"][UNIT_LABEL]
                found.setdefault(f"{namespace}/{unit}", set()).add(pod["metadata"]["uid"])
        return found

    def labels_of_pod(self, name: str) -> dict[str, str]:
        """Return the labels of the unit's only Pod."""
        (labels,) = (
            pod["metadata"]["labels"]
            for pod in self.made.objects("pods", self.made.instance)
            if pod["metadata"]["labels"][UNIT_LABEL] == name
        )
        found: dict[str, str] = labels
        return found


def running_fleet(made: Installation) -> Fleet:
    """Start the roles and create all units; return once they are at rest."""
    manager, apis = made.manager(), (made.api(), made.api())
    for process in (manager, *apis):
        process.wait_until_ready()
    fleet = Fleet(made, manager, apis)
    seed(fleet.caller, SPEC, UNITS)
    asyncio.run(_claim_all(fleet))
    wait_until_running(fleet.caller, SPEC, UNITS)
    _keep_warm(fleet)
    _suspend_one(fleet)
    _leave_stuck(fleet)
    fleet.wait_until_quiet()
    return fleet


async def _claim_all(fleet: Fleet) -> None:
    orders = iter([order(f"fleet-{number}", SPEC) for number in range(UNITS)])

    async def claim_some() -> None:
        for each in orders:
            assert (await callers.claim(each)).status == 201

    async with concurrent_callers(fleet.apis) as callers, asyncio.TaskGroup() as tasks:
        for _ in range(CALLERS):
            tasks.create_task(claim_some())


def _keep_warm(fleet: Fleet) -> None:
    body = {"operationID": "warm", "name": "warm", "specName": "warm.1", "replicas": WARM}
    assert fleet.caller.post("/operator/stockpools", {**body, **SMALL}).status == 202
    fleet.caller.until("/operator/stockpools/warm", lambda pool: pool["available"] == WARM)


def _suspend_one(fleet: Fleet) -> None:
    path = "/gpu-units/fleet-0"
    assert fleet.caller.put(path, {"suspended": True}).status == 200
    fleet.caller.until(path, lambda unit: unit["phase"] == "Suspended")


def _leave_stuck(fleet: Fleet) -> None:
    namespace = fleet.made.instance
    fleet.made.plane.kubectl(
        "create", "deployment", "unit-foreign", "--image=nginx:1.29", "--replicas=0",
        "-n", namespace,
    )  # fmt: skip
    for name, (reason, spec) in STUCK.items():
        _apply(fleet, name, {"specName": f"{name}.1", **spec})
        _wait_for_reason(fleet, name, reason)


def _wait_for_reason(fleet: Fleet, name: str, reason: str) -> None:
    fleet.caller.until(f"/gpu-units/{name}", lambda unit: unit["reason"] == reason)


def _apply(fleet: Fleet, name: str, spec: dict[str, Any]) -> None:
    document = {
        "apiVersion": "runtime.lokiwager.io/v1alpha1",
        "kind": "GPUUnit",
        "metadata": {"name": name, "namespace": fleet.made.instance},
        "spec": spec,
    }
    fleet.made.plane.kubectl("apply", "-f", "-", stdin=json.dumps(document))
