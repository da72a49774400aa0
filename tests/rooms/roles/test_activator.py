"""The activator role: the configurations that it rejects, and that only the leader acts."""

import asyncio
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import pytest
import yaml

from gpuruntime.embedded.apiserver.in_process_transport import InProcessTransport
from gpuruntime.errors import ConfigurationError
from gpuruntime.models.kinds.units import GPU_UNITS
from gpuruntime.models.kubernetes.cluster import LEASES
from gpuruntime.roles.activator import activator_role
from gpuruntime.roles.process import Process
from gpuruntime.settings.load import load
from gpuruntime.settings.schema import Settings
from tests.eventually import equals, eventually, eventually_blocking
from tests.faults import FaultyTransport
from tests.proofs.real_cluster.product import request
from tests.rooms.bus.broker import Broker, Bus, bus
from tests.rooms.operations.cluster import INSTANCE, SYSTEM, Cluster, Document
from tests.rooms.roles.programs import Programs, printed

ELECTION = {
    "enabled": True,
    "leaseDuration": "1500ms",
    "renewDeadline": "1s",
    "retryPeriod": "200ms",
}
PREFIXES = count(1)


def settings(folder: Path, **members: Any) -> Settings:
    path = folder / "activator.yaml"
    path.write_text(yaml.safe_dump({"operations": {"listen": "127.0.0.1:0"}, **members}))
    return load(str(path), flags={}, environment={})


def template(name: str) -> Document:
    return {
        "apiVersion": GPU_UNITS.api_version,
        "kind": "GPUUnit",
        "metadata": {"name": name},
        "spec": {
            "specName": "g1.1",
            "serverless": {"requestID": name, "minAvailableCount": 1},
        },
    }


def declare(cluster: Cluster, name: str) -> None:
    cluster.call("POST", GPU_UNITS.path(namespace=INSTANCE), template(name))


def workers(cluster: Cluster) -> list[str]:
    names = (unit["metadata"]["name"] for unit in cluster.units)
    return sorted(name for name in names if "-w-" in name)


class Replica:
    def __init__(self, cluster: Cluster, made: Bus, folder: Path, seed: int) -> None:
        self.transport = FaultyTransport(InProcessTransport(cluster.server))
        nats = {"url": made.url, "subjectPrefix": made.names.prefix}
        self._role = activator_role(
            settings(folder, nats=nats, leaderElection=ELECTION),
            transport=self.transport,
            process=Process(identity=f"replica-{seed}", rng=Random(seed)),
        )

    async def run(self) -> None:
        await self._role.run()

    @property
    def written(self) -> list[str]:
        """Return the writes except those of the Lease."""
        return [each for each in self.transport.written() if "/leases" not in each]


def test_an_activator_without_a_broker_is_a_configuration_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"nats.url is empty: set the URL of the broker"):
        activator_role(settings(tmp_path))


async def test_only_the_leading_activator_acts_and_the_other_takes_over_after_it(
    shared: Broker, tmp_path: Path
) -> None:
    cluster = Cluster()
    cluster.add_stock(4)
    async with bus(shared.url, f"role{next(PREFIXES)}") as made, asyncio.TaskGroup() as tasks:
        first, second = (Replica(cluster, made, tmp_path, seed) for seed in (1, 2))
        declare(cluster, "one")
        leading = tasks.create_task(first.run())
        await eventually(lambda: workers(cluster), equals(["one-w-1"]))
        standing_by = tasks.create_task(second.run())
        declare(cluster, "two")
        await eventually(lambda: workers(cluster), equals(["one-w-1", "two-w-1"]))
        assert second.written == []
        leases = cluster.objects(LEASES, SYSTEM)
        assert [lease["metadata"]["name"] for lease in leases] == ["gpuruntime-activator"]
        leading.cancel()
        declare(cluster, "three")
        await eventually(lambda: "three-w-1" in workers(cluster))
        assert workers(cluster) == ["one-w-1", "three-w-1", "two-w-1"]
        assert len(cluster.claimed) == 3
        standing_by.cancel()


def test_the_program_scales_on_a_cluster_and_stops_on_a_signal(
    program: Programs, shared: Broker
) -> None:
    dev = program.start("dev", "--only", "cluster")
    kubeconfig = printed(dev, "kubeconfig")
    prefix = f"role{next(PREFIXES)}"
    server = yaml.safe_load(Path(kubeconfig).read_text())["clusters"][0]["cluster"]["server"]
    path = GPU_UNITS.path(namespace=INSTANCE, name="echo")
    made = request("POST", server + GPU_UNITS.path(namespace=INSTANCE), template("echo"))
    assert made.status == 201
    activator = program.start(
        "activator", "--kubeconfig", kubeconfig, nats={"url": shared.url, "subjectPrefix": prefix}
    )
    status = eventually_blocking(
        lambda: request("GET", server + path).document.get("status", {}),
        lambda status: "serverless" in status,
        explain=activator.tail,
    )
    assert status["serverless"]["reason"] == "insufficient_capacity"
    assert activator.stop() == 0
