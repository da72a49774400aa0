"""A server process that only sends Pods; its answers are encoded before it listens.

    python -m tests.proofs.bench.pod_server PODS EVENTS RATE

Lists are paged as by an API server. A watch gets EVENTS changes at RATE a second (0: as fast as
the client reads), each with the moment of its sending, and then nothing more.
"""

import asyncio
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import attrs
import msgspec
import yaml

from gpuruntime.kube.connect.sources import Kubeconfig
from gpuruntime.kube.http import HttpTransport, connect
from gpuruntime.models.encoding import codec
from gpuruntime.models.encoding.json import JsonObject
from gpuruntime.models.kubernetes.metadata import ObjectMeta
from gpuruntime.models.kubernetes.resources import Resource

# The annotation with the moment at which an event was sent.
SENT_AT = "sent-at"
MARK = b"@@@@@@@@@@@@@@@@@@@@"
BURST_SECONDS = 0.005
# Pods as in a large cluster: about 3.9 KB each on the wire, a third of it managedFields.
NAMESPACES = 20
PODS_OF_A_DEPLOYMENT = 5
NODES = 500
MOMENT = "2025-11-18T12:47:31Z"
LABELS = (
    "app.kubernetes.io/managed-by",
    "app.kubernetes.io/name",
    "pod-template-hash",
    "runtime.lokiwager.io/spec",
    "runtime.lokiwager.io/unit",
)
CONDITIONS = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady")
CONTAINER_FIELDS = ("f:args", "f:command", "f:env", "f:image", "f:name", "f:ports", "f:resources")
CONDITION_FIELDS = ("f:lastTransitionTime", "f:status", "f:type")
SPEC_FIELDS = ("f:dnsPolicy", "f:priorityClassName", "f:restartPolicy", "f:volumes")


@attrs.frozen(kw_only=True, slots=True)
class PodSpec:
    """The part of a Pod's spec that is decoded; containers and volumes are only compared."""

    nodeName: str = ""
    containers: msgspec.Raw = msgspec.Raw()
    volumes: msgspec.Raw = msgspec.Raw()


@attrs.frozen(kw_only=True, slots=True)
class Condition:
    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""


@attrs.frozen(kw_only=True, slots=True)
class ContainerStatus:
    name: str = ""
    ready: bool = False
    restartCount: int = 0
    state: msgspec.Raw = msgspec.Raw()


@attrs.frozen(kw_only=True, slots=True)
class PodStatus:
    phase: str = ""
    conditions: tuple[Condition, ...] = ()
    containerStatuses: tuple[ContainerStatus, ...] = ()


@attrs.frozen(kw_only=True, slots=True)
class Pod:
    metadata: ObjectMeta = attrs.field(factory=ObjectMeta)
    spec: PodSpec = attrs.field(factory=PodSpec)
    status: PodStatus = attrs.field(factory=PodStatus)


PODS = Resource(group="", version="v1", kind="Pod", plural="pods", type=Pod)


def pod_uid(index: int) -> str:
    return f"{index:08x}-5f3c-4b7e-9d2a-{index * 2_654_435_761 % 2**48:012x}"


def pod_json(index: int, version: int = 1) -> JsonObject:
    """Return the Pod of this index; its message contains the version."""
    owner = index // PODS_OF_A_DEPLOYMENT
    namespace, app = f"tenant-{owner % NAMESPACES}", f"unit-{owner:05d}"
    name = f"{app}-7c9d8b6f54-{index:05x}"
    labels = ("gpuruntime", "gpuruntime-unit", "7c9d8b6f54", f"g{index % 4}.1", app)
    return {
        "metadata": {
            "name": name,
            "generateName": f"{app}-7c9d8b6f54-",
            "namespace": namespace,
            "uid": pod_uid(index),
            "resourceVersion": str(version),
            "generation": 1,
            "creationTimestamp": MOMENT,
            "labels": dict(zip(LABELS, labels, strict=True)),
            "ownerReferences": [
                {
                    "apiVersion": "apps/v1",
                    "kind": "ReplicaSet",
                    "name": f"{app}-7c9d8b6f54",
                    "uid": pod_uid(owner),
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
            "managedFields": _managed_fields(pod_uid(owner)),
        },
        "spec": _spec(app, node=f"node-{index % NODES:04d}"),
        "status": _status(index, version),
    }


def _managed_fields(owner_uid: str) -> list[JsonObject]:
    """Return the entries of the controller and of the kubelet that every running Pod has."""
    container: JsonObject = {name: {} for name in (".", *CONTAINER_FIELDS)}
    condition: JsonObject = {name: {} for name in (".", *CONDITION_FIELDS)}
    return [
        {
            "manager": "kube-controller-manager",
            "operation": "Update",
            "apiVersion": "v1",
            "time": MOMENT,
            "fieldsType": "FieldsV1",
            "fieldsV1": {
                "f:metadata": {
                    "f:generateName": {},
                    "f:labels": {".": {}, **{f"f:{label}": {} for label in LABELS}},
                    "f:ownerReferences": {".": {}, f'k:{{"uid":"{owner_uid}"}}': {}},
                },
                "f:spec": {
                    "f:containers": {'k:{"name":"runtime"}': container},
                    **{name: {} for name in SPEC_FIELDS},
                },
            },
        },
        {
            "manager": "kubelet",
            "operation": "Update",
            "apiVersion": "v1",
            "time": MOMENT,
            "fieldsType": "FieldsV1",
            "fieldsV1": {
                "f:status": {
                    "f:conditions": {f'k:{{"type":"{kind}"}}': condition for kind in CONDITIONS},
                    "f:containerStatuses": {},
                    "f:phase": {},
                }
            },
            "subresource": "status",
        },
    ]


def _spec(app: str, *, node: str) -> JsonObject:
    size = {"cpu": "4", "memory": "16Gi", "nvidia.com/gpu": "1"}
    return {
        "volumes": [
            {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "8Gi"}},
            {"name": "data", "persistentVolumeClaim": {"claimName": f"{app}-data"}},
        ],
        "containers": [
            {
                "name": "runtime",
                "image": "registry.example/tenant/inference-server:2.4.1",
                "command": ["/usr/bin/serve"],
                "args": ["--port=8000", "--model=/data/model", f"--name={app}"],
                "ports": [{"name": "http", "containerPort": 8000, "protocol": "TCP"}],
                "env": [
                    {"name": "SPEC_NAME", "value": "g1.1"},
                    {"name": "UNIT_NAME", "value": app},
                    {"name": "GPU_COUNT", "value": "1"},
                    {"name": "MEMORY_LIMIT", "value": "16Gi"},
                ],
                "resources": {"limits": size, "requests": size},
                "volumeMounts": [
                    {"name": "shm", "mountPath": "/dev/shm"},
                    {"name": "data", "mountPath": "/data"},
                ],
                "terminationMessagePath": "/dev/termination-log",
                "imagePullPolicy": "IfNotPresent",
            }
        ],
        "restartPolicy": "Always",
        "dnsPolicy": "ClusterFirst",
        "nodeName": node,
        "schedulerName": "default-scheduler",
        "priorityClassName": "gpuruntime-instance",
        "tolerations": [
            {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
            for key in ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
        ],
    }


def _status(index: int, version: int) -> JsonObject:
    address = f"10.{index // 65_536}.{index // 256 % 256}.{index % 256}"
    return {
        "phase": "Running",
        "conditions": [
            {"type": kind, "status": "True", "lastTransitionTime": MOMENT} for kind in CONDITIONS
        ],
        "message": f"version {version}",
        "podIP": address,
        "podIPs": [{"ip": address}],
        "startTime": MOMENT,
        "containerStatuses": [
            {
                "name": "runtime",
                "state": {"running": {"startedAt": MOMENT}},
                "ready": True,
                "restartCount": 0,
                "image": "registry.example/tenant/inference-server:2.4.1",
                "imageID": "",
                "containerID": f"containerd://{index:064x}",
                "started": True,
            }
        ],
    }


class PodServer:
    def __init__(self, pods: int, events: int, rate: float) -> None:
        self._items = [codec.encode(pod_json(index, index + 1)) for index in range(pods)]
        self._events = [self._event(index, pods) for index in range(min(events, 2_000))]
        self._count = events
        self._rate = rate

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                path = head.split(b" ", 2)[1].decode()
                query = parse_qs(urlsplit(path).query)
                if "watch" in query:
                    await self._watch(writer)
                    return
                await self._page(writer, query)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def _page(self, writer: asyncio.StreamWriter, query: dict[str, list[str]]) -> None:
        start = int(query.get("continue", ["0"])[0])
        end = min(start + int(query.get("limit", ["1000000"])[0]), len(self._items))
        metadata: JsonObject = {"resourceVersion": str(len(self._items))}
        if end < len(self._items):
            metadata["continue"] = str(end)
        head: JsonObject = {"kind": "PodList", "apiVersion": "v1", "metadata": metadata}
        items = b",".join(self._items[start:end])
        body = codec.encode(head)[:-1] + b',"items":[' + items + b"]}"
        writer.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
            b"Content-Length: %d\r\n\r\n" % len(body)
        )
        writer.write(body)
        await writer.drain()

    async def _watch(self, writer: asyncio.StreamWriter) -> None:
        writer.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
            b"Transfer-Encoding: chunked\r\n\r\n"
        )
        started = time.monotonic()
        for number in range(self._count):
            if self._rate:
                early = started + number / self._rate - time.monotonic()
                if early > BURST_SECONDS / 10:
                    await asyncio.sleep(early)
            body = self._stamped(number)
            writer.write(b"%x\r\n%b\r\n" % (len(body), body))
            await writer.drain()
        await asyncio.Event().wait()

    def _stamped(self, number: int) -> bytes:
        """Return the event with the current moment and a resourceVersion of its own."""
        version = str(len(self._items) + number + 1).encode()
        event = self._events[number % len(self._events)]
        stamped = event.replace(MARK, f"{time.monotonic():020.9f}".encode(), 1)
        return stamped.replace(b"#VERSION#", version, 1)

    def _event(self, index: int, pods: int) -> bytes:
        pod = pod_json(index % max(pods, 1), 1)
        metadata = dict(pod["metadata"])  # type: ignore[arg-type]  # made by us
        metadata["resourceVersion"] = "#VERSION#"
        metadata["annotations"] = {SENT_AT: MARK.decode()}
        body = {"apiVersion": "v1", "kind": "Pod", **pod, "metadata": metadata}
        return codec.encode({"type": "MODIFIED", "object": body}) + b"\n"


async def main(pods: int, events: int, rate: float) -> None:
    server = PodServer(pods, events, rate)
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0, limit=2**20)
    sys.stdout.write(f"{listening.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(listening.serve_forever(), name="serve")


@asynccontextmanager
async def pod_server(*, pods: int, events: int = 0, rate: float = 0.0) -> AsyncIterator[str]:
    """Run the server as a process until the block ends; yield its URL."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.proofs.bench.pod_server",
        str(pods),
        str(events),
        str(rate),
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    try:
        port = (await process.stdout.readline()).decode().strip()
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        await process.wait()


@asynccontextmanager
async def transport_to(url: str) -> AsyncIterator[HttpTransport]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kubeconfig"
        path.write_text(yaml.safe_dump(kubeconfig_of(url)), encoding="utf-8")
        transport = await connect(Kubeconfig(str(path)), now=lambda: datetime.now(UTC))
        try:
            yield transport
        finally:
            await transport.close()


def kubeconfig_of(url: str) -> dict[str, object]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "bench",
        "clusters": [{"name": "bench", "cluster": {"server": url}}],
        "users": [{"name": "bench", "user": {"token": "bench"}}],
        "contexts": [{"name": "bench", "context": {"cluster": "bench", "user": "bench"}}],
    }


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])))
