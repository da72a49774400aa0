"""Replicas of a gateway as the manager and callers see them: Pods, processes and their records."""

import asyncio
from random import Random
from typing import Any, Final

import attrs

from gpuruntime.kube.errors import UnreachableError
from gpuruntime.kube.transport import Request, Response, Transport
from gpuruntime.models.encoding import codec
from gpuruntime.models.kinds import labels
from gpuruntime.models.kinds.activity import GATEWAY_APP, ActivityReport, UnitActivity
from gpuruntime.models.kubernetes.pods import PODS
from tests.rooms.operations.cluster import SYSTEM, Cluster

UNITS: Final = tuple(f"uid-{number}" for number in range(6))


class GatewayProcess:
    """A process of a gateway; its clock has an origin of its own."""

    def __init__(self, boot: str, origin: float) -> None:
        self.boot = boot
        self._origin = origin
        self._since = self._now()
        self._units: dict[str, UnitActivity] = {}

    def receive(self, uid: str, *, is_ping: bool) -> None:
        """Record bytes of a caller; pings are no activity."""
        if not is_ping:
            self._units[uid] = UnitActivity(last=self._now(), open=1)

    @property
    def report(self) -> ActivityReport:
        return ActivityReport(
            boot=self.boot, since=self._since, now=self._now(), units=dict(self._units)
        )

    def _now(self) -> float:
        return self._origin + asyncio.get_running_loop().time()


@attrs.define
class Replica:
    """A Pod of the gateway; without a process it neither serves nor answers."""

    name: str
    address: str
    process: GatewayProcess | None = None
    is_readable: bool = True
    answer_seconds: float = 0.0


class Fleet:
    """The replicas, and the truth about the units' activity."""

    def __init__(self, rng: Random) -> None:
        self.cluster = Cluster()
        self.replicas: dict[str, Replica] = {}
        self.last_active: dict[str, float] = {}
        self._rng = rng
        self._count = 0

    def add(self) -> Replica:
        """Create a Pod with a running process, as the kubelet reports it."""
        self._count += 1
        name, address = f"gateway-{self._count}", f"10.0.0.{self._count}"
        body = {
            "metadata": {"name": name, "labels": {labels.APP_NAME: GATEWAY_APP}},
            "spec": {"nodeName": "node-1", "containers": [{"name": "gateway", "image": "i"}]},
        }
        self.cluster.call("POST", PODS.path(namespace=SYSTEM), body)
        self._report(name, phase="Running", podIP=address)
        replica = Replica(name, address)
        self.replicas[address] = replica
        self.start(replica)
        return replica

    def start(self, replica: Replica) -> None:
        boot = f"{self._rng.getrandbits(64):016x}"
        replica.process = GatewayProcess(boot, self._rng.uniform(0, 1e6))

    def terminate(self, replica: Replica) -> None:
        """Mark the Pod as terminating; its process drains until `remove`."""
        path = PODS.path(namespace=SYSTEM, name=replica.name)
        self.cluster.call("DELETE", path, {"gracePeriodSeconds": 600})

    def remove(self, replica: Replica) -> None:
        replica.process = None
        path = PODS.path(namespace=SYSTEM, name=replica.name)
        self.cluster.call("DELETE", path, {"gracePeriodSeconds": 0})
        del self.replicas[replica.address]

    def evict(self, replica: Replica) -> None:
        """End the process for good; its Pod stays as a failed one."""
        replica.process = None
        self._report(replica.name, phase="Failed")
        del self.replicas[replica.address]

    def send(self, replica: Replica, uid: str, *, is_ping: bool = False) -> None:
        """Send bytes to the unit through the replica, if its process runs."""
        if replica.process is None:
            return
        replica.process.receive(uid, is_ping=is_ping)
        if not is_ping:
            self.last_active[uid] = asyncio.get_running_loop().time()

    async def fetch(self, url: str) -> bytes:
        address = url.removeprefix("http://").partition(":")[0]
        replica = self.replicas.get(address)
        if replica is None or replica.process is None or not replica.is_readable:
            await asyncio.sleep(self._rng.choice((0.01, 60.0)))
            raise ConnectionError(f"{url} does not answer")
        await asyncio.sleep(replica.answer_seconds)
        if replica.process is None:
            raise ConnectionError(f"{url} was cut")
        body = codec.encode(codec.to_json(replica.process.report))
        await asyncio.sleep(replica.answer_seconds)
        return body

    def _report(self, name: str, **status: Any) -> None:
        path = PODS.path(namespace=SYSTEM, name=name, subresource="status")
        self.cluster.call("PATCH", path, {"status": status})


class RefusingTransport:
    """A transport to the cluster that can be cut."""

    def __init__(self, inner: Transport) -> None:
        self._inner = inner
        self.is_cut = False
        self.stream, self.socket = inner.stream, inner.socket

    async def request(self, request: Request) -> Response:
        if self.is_cut:
            raise UnreachableError("cut off")
        return await self._inner.request(request)
