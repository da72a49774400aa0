"""Pods that run as processes: they start and end with their Pod and report a crash."""

import asyncio
import os
import re
import signal
import urllib.request
from pathlib import Path
from typing import Any

from gpuruntime.embedded.kinds.cluster_objects import CLAIMS, SERVICES
from gpuruntime.embedded.kinds.pod_objects import PODS, Pod
from gpuruntime.embedded.processes.programs import Program
from tests import file_server
from tests.rooms.embedded.world import World, running_cluster

IMAGE = "example/files:1"
ARGUMENTS = ["/data", "--bind", "0.0.0.0", "--port", "5000", "--path-prefix", "/p"]
SELECTOR = {"app": "files"}


async def files(world: World, name: str = "files") -> Pod:
    """Create a Pod of the image with its own claim and a Service."""
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    await world.make(CLAIMS, "data", spec=claim)
    container = {
        "name": "c",
        "image": IMAGE,
        "args": ARGUMENTS,
        "ports": [{"containerPort": 5000}],
        "readinessProbe": {"tcpSocket": {"port": 5000}},
        "volumeMounts": [{"name": "v", "mountPath": "/data"}],
    }
    volume = {"name": "v", "persistentVolumeClaim": {"claimName": "data"}}
    spec: dict[str, Any] = {"containers": [container], "volumes": [volume]}
    await world.make(SERVICES, name, spec={"selector": SELECTOR, "ports": [{"port": 5000}]})
    return await world.make(PODS, name, metadata={"labels": SELECTOR}, spec=spec)


def programs(folder: Path) -> dict[str, Program]:
    path = file_server.written(folder / "bin")
    return {IMAGE: Program(name="dufs", path=str(path))}


def is_ready(pod: Pod) -> bool:
    return pod.is_ready


def is_backing_off(pod: Pod) -> bool:
    waits = [each.state.waiting for each in pod.status.containerStatuses]
    return any(each and each.reason == "CrashLoopBackOff" for each in waits)


def number_of(pod: Pod) -> int:
    """Return the process id of the only container."""
    (number,) = re.findall(r"(\d+) \(c\)", pod.status.message)
    return int(number)


def read(place: tuple[str, int], path: str) -> bytes:
    with urllib.request.urlopen(f"http://{place[0]}:{place[1]}/p/{path}", timeout=10) as answer:
        body: bytes = answer.read()
        return body


def is_running(number: int) -> bool:
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return False
    return True


def lowest_of_any_port() -> int:
    """Return the lowest port that the system gives to a socket that asks for any."""
    return int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])


async def way_to(world: World) -> tuple[str, int] | None:
    service = await world.get(SERVICES, "files")
    return world.cluster.map_address(service.spec.clusterIP, 5000)


async def test_a_pod_runs_as_a_process_with_its_volume_and_ends_with_it(tmp_path: Path) -> None:
    root = tmp_path / "volumes"
    async with running_cluster(programs=programs(tmp_path), volumes_root=str(root)) as world:
        await files(world)
        pod = await world.until(PODS, "files", is_ready)
        assert "runs as processes of this machine" in pod.status.message
        (folder,) = root.iterdir()
        (folder / "a").write_bytes(b"hello")
        place = await way_to(world)
        assert place
        assert await asyncio.to_thread(read, place, "a") == b"hello"

        await world.delete(PODS, "files")
        await world.until_gone(PODS, "files")
        assert await way_to(world) is None
        assert (folder / "a").read_bytes() == b"hello"


async def test_a_pod_listens_on_no_port_that_other_sockets_may_get_first(tmp_path: Path) -> None:
    """Such a socket would pass its readiness probe and answer its requests."""
    root = tmp_path / "volumes"
    async with running_cluster(programs=programs(tmp_path), volumes_root=str(root)) as world:
        await files(world)
        await world.until(PODS, "files", is_ready)
        place = await way_to(world)
        assert place
        assert place[1] < lowest_of_any_port()


async def test_processes_end_with_the_cluster(tmp_path: Path) -> None:
    root = tmp_path / "volumes"
    async with running_cluster(programs=programs(tmp_path), volumes_root=str(root)) as world:
        await files(world)
        pod = await world.until(PODS, "files", is_ready)
        number = number_of(pod)
        assert is_running(number)
    assert not is_running(number)


async def test_a_process_that_ends_shows_its_last_output(tmp_path: Path) -> None:
    root = tmp_path / "volumes"
    async with running_cluster(programs=programs(tmp_path), volumes_root=str(root)) as world:
        await files(world)
        pod = await world.until(PODS, "files", is_ready)
        (folder,) = root.iterdir()
        (folder / "CRASH").touch()
        await world.delete(PODS, "files")
        await world.until_gone(PODS, "files")

        volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]
        container = {
            "name": "c",
            "image": IMAGE,
            "args": ARGUMENTS,
            "volumeMounts": [{"name": "v", "mountPath": "/data"}],
        }
        await world.make(PODS, "again", spec={"containers": [container], "volumes": volumes})
        pod = await world.until(PODS, "again", is_backing_off)
        (status,) = pod.status.containerStatuses
        assert status.restartCount == 1
        assert status.lastState.terminated
        assert "no way to serve this folder" in status.lastState.terminated.message
        assert not pod.is_ready


async def test_a_killed_process_is_restarted(tmp_path: Path) -> None:
    root = tmp_path / "volumes"
    async with running_cluster(programs=programs(tmp_path), volumes_root=str(root)) as world:
        await files(world)
        pod = await world.until(PODS, "files", is_ready)
        os.kill(number_of(pod), signal.SIGKILL)
        pod = await world.until(PODS, "files", lambda pod: pod.restarts == 1 and pod.is_ready)
        (status,) = pod.status.containerStatuses
        assert status.lastState.terminated
        assert status.lastState.terminated.exitCode == 128 + signal.SIGKILL
