"""Workers beside containers of unaware images, under a real kubelet."""

import json
from collections.abc import Iterator
from operator import not_
from pathlib import Path
from typing import Any

import pytest

from gpuruntime.models.kinds import labels
from gpuruntime.models.kinds.invocations import State
from tests.eventually import eventually, eventually_blocking
from tests.proofs.real_cluster.controlplane import ControlPlane
from tests.proofs.real_cluster.product import Installation, installation
from tests.proofs.real_node.images.oci_archive import Image
from tests.proofs.real_node.images.preloaded import Images
from tests.proofs.real_node.isolation import enclosure
from tests.proofs.real_node.node import Node
from tests.rooms.bus.broker import FUNCTION, Broker, Bus, broker, bus
from tests.rooms.worker.invocations import accept
from tests.rooms.worker.workers import ended

pytestmark = pytest.mark.node

UID = 1000
UNPRIVILEGED = "docker.io/library/unprivileged:1"
RESTRICTED_UID = 65_532
# Only its own user may open its socket, as servers have it by default. A signal ends it at once.
FRAMEWORK = """
import http.server, json, os, signal, socketserver, sys, time

class Handler(http.server.BaseHTTPRequestHandler):
    def address_string(self):
        return "worker"

    def do_GET(self):
        self.send_response(200)
        self.end_headers()

    def do_POST(self):
        call = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        time.sleep(call["payload"])
        answer = json.dumps({"statusCode": 200, "body": os.getuid()}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

os.umask(0o022)
signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
path = "/tmp/serverless-framework/framework.sock"
socketserver.ThreadingUnixStreamServer(path, Handler).serve_forever()
"""
LONG_SECONDS = 5.0


@pytest.fixture(scope="module")
def queue(real_node: Node) -> Iterator[Broker]:
    """Yield a broker at an address that Pods reach."""
    del real_node
    with broker(address=enclosure.ADDRESS) as started:
        yield started


@pytest.fixture(scope="module")
def unprivileged(images: Images, real_node: Node, tmp_path_factory: pytest.TempPathFactory) -> str:
    archive = tmp_path_factory.mktemp("images") / "unprivileged.tar"
    image = Image(name=UNPRIVILEGED, command=("python3",), user=f"{UID}:{UID}")
    images.pack(archive, image, "files", "busybox", "python")
    real_node.take_image(archive)
    return UNPRIVILEGED


def declare(made: Installation, image: str) -> None:
    worker_of = {"name": "echo", "uid": "6d1d2b1e-6f0a-4c7e-9d6e-0f5a2b3c4d5e"}
    unit = {
        "apiVersion": "runtime.lokiwager.io/v1alpha1",
        "kind": "GPUUnit",
        "metadata": {"name": "echo-w-1", "namespace": made.instance},
        "spec": {
            "specName": "g1.1",
            "image": image,
            "template": {"command": ["python3", "-c", FRAMEWORK]},
            "serverless": {"requestID": FUNCTION, "workerOf": worker_of},
        },
    }
    made.plane.kubectl("apply", "-f", "-", stdin=json.dumps(unit))


def seen(made: Installation) -> str:
    """Return the unit's phase and the message of its first condition."""
    units = made.objects("gpuunits", made.instance)
    status: dict[str, Any] = units[0].get("status", {}) if units else {}
    ready: dict[str, Any] = (status.get("conditions") or [{}])[0]
    return f"{status.get('phase', '')} {ready.get('message', '')}"


@pytest.mark.parametrize(("level", "uid"), [("baseline", UID), ("restricted", RESTRICTED_UID)])
async def test_a_worker_reaches_a_socket_of_any_user_and_drains_before_it_ends(
    plane: ControlPlane, queue: Broker, unprivileged: str, tmp_path: Path, level: str, uid: int
) -> None:
    small = {"cpu": "20m", "memory": "64Mi", "ephemeralStorage": "100Mi"}
    with installation(plane, tmp_path, f"workers-{level}") as made:
        # The namespace is also outside of an installation that an earlier test left.
        marks = (f"pod-security.kubernetes.io/enforce={level}", f"{labels.UNMANAGED}=true")
        plane.kubectl("label", "namespace", made.instance, *marks, "--overwrite")
        nats = {"url": queue.url, "subjectPrefix": level}
        made.manager(podSecurity=level, podDefaults=small, nats=nats).wait_until_ready()
        async with bus(queue.url, level) as queued:
            declare(made, unprivileged)
            eventually_blocking(lambda: seen(made), lambda told: told.startswith("Ready"))
            await accept(queued, "short", payload=0)
            first = await ended(queued, "short")
            assert (first.state, bytes(first.body)) == (State.SUCCEEDED, str(uid).encode())
            await accept(queued, "long", payload=LONG_SECONDS)
            await until_running(queued, "long")
            made.plane.kubectl("delete", "gpuunit", "echo-w-1", "-n", made.instance)
            last = await ended(queued, "long")
            assert (last.state, last.attempt) == (State.SUCCEEDED, 1)
        eventually_blocking(lambda: made.objects("pods", made.instance), not_)


async def until_running(queued: Bus, name: str) -> None:
    await eventually(
        lambda: queued.records.read(FUNCTION, name),
        lambda found: found is not None and found.record.state is State.RUNNING,
    )
