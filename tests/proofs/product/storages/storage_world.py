"""An installation for tests of storages, on the embedded cluster or on the real control plane.

Helper Pods, which fill a storage or serve its files, request more than any node has. They wait
until the test ends them or binds them to a node.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import aiohttp
import attrs

from gpuruntime.embedded.apiserver.in_process_transport import InProcessTransport
from gpuruntime.embedded.cluster import ClusterOptions, EmbeddedCluster
from gpuruntime.embedded.nodes.failures import Pace
from gpuruntime.kube.client import Client
from gpuruntime.models.kinds import labels
from gpuruntime.models.kinds.storages import GPU_STORAGES
from gpuruntime.models.kinds.units import GPU_UNITS
from gpuruntime.models.kubernetes.pods import PODS
from gpuruntime.models.kubernetes.resources import Resource
from gpuruntime.models.kubernetes.volumes import JOBS, STORAGE_CLASSES, VOLUME_CLAIMS
from gpuruntime.roles.api import api_role
from gpuruntime.roles.dev.installation import install
from gpuruntime.roles.manager import manager_role
from gpuruntime.settings.schema import (
    HelperSettings,
    LeaderElectionSettings,
    OperationsSettings,
    Settings,
)
from gpuruntime.settings.values import Address, Amount
from tests.eventually import eventually
from tests.proofs.conformance.calls import Api
from tests.proofs.conformance.plain_transport import PlainTransport
from tests.proofs.real_cluster.product import Installation, Process

Document = dict[str, Any]
Holds = Callable[[Any], object]

# An amount of cpu; the nodes have 64 or 512.
TOO_MUCH: Final = "600"
HOST_PATH: Final = "kubernetes.io/host-path"
POLL_SECONDS: Final = 0.1
WAIT_SECONDS: Final = 60.0
# On the embedded cluster: long enough to observe what waits for a Pod to end.
STOP_SECONDS: Final = 10.0
BEGIN: Final = datetime(2026, 3, 1, tzinfo=UTC)


@attrs.frozen
class Answer:
    status: int
    document: Any

    @property
    def data(self) -> Any:
        return self.document["data"]

    @property
    def code(self) -> str:
        return str(self.document["error"]["code"])

    @property
    def message(self) -> str:
        return str(self.document["error"]["message"])

    @property
    def fields(self) -> set[str]:
        return {each["field"] for each in self.document["error"].get("details", ())}


@attrs.frozen(kw_only=True)
class StorageWorld:
    """The api's callers, and `kube`, through which a test acts as kubectl or a kubelet."""

    kube: Api
    namespace: str
    prefix: str
    session: aiohttp.ClientSession
    address: str
    # Stops (False) or starts (True) kubelets that would end a Pod in spite of a finalizer.
    put_to_work: Callable[[bool], None]

    def name(self, short: str) -> str:
        """Return a name that no other test of the run uses."""
        return f"{self.prefix}-{short}"

    async def call(self, method: str, path: str, body: object = None) -> Answer:
        url = f"{self.address}/api/v1{path}"
        async with self.session.request(method, url, json=body) as answer:
            is_json = answer.content_type == "application/json"
            return Answer(answer.status, await answer.json() if is_json else None)

    async def make(self, short: str, **members: Any) -> str:
        name = self.name(short)
        answer = await self.call("POST", "/gpu-storages", {"name": name, "size": "1Gi", **members})
        assert answer.status == 201, answer
        return name

    async def ready(self, short: str, **members: Any) -> str:
        name = await self.make(short, **members)
        await self.storage(name, is_ready)
        return name

    async def storage(self, name: str, holds: Holds) -> Any:
        return await self.view(f"/gpu-storages/{name}", holds)

    async def unit(self, name: str, holds: Holds) -> Any:
        return await self.view(f"/gpu-units/{name}", holds)

    async def view(self, path: str, holds: Holds) -> Any:
        answer = await self.until(
            lambda: self.call("GET", path), lambda seen: seen.status == 200 and holds(seen.data)
        )
        return answer.data

    async def mount(self, short: str, *storages: str, **spec: Any) -> str:
        """Create a unit that mounts the storages, as kubectl would."""
        name = self.name(short)
        mounts = [{"name": each, "mountPath": f"/{each}"} for each in storages]
        small = {"specName": "g1.1", "cpu": "100m", "memory": "64Mi"}
        body = {
            "apiVersion": GPU_UNITS.api_version,
            "kind": "GPUUnit",
            "metadata": {"name": name},
            "spec": {**small, "storageMounts": mounts, **spec},
        }
        (await self.kube.post(GPU_UNITS.path(namespace=self.namespace), body)).ok(201)
        return name

    async def write_storage(self, short: str, spec: Document) -> str:
        """Create a storage past the API, as kubectl would."""
        name = self.name(short)
        body = {
            "apiVersion": GPU_STORAGES.api_version,
            "kind": "GPUStorage",
            "metadata": {"name": name},
            "spec": {"size": "1Gi", **spec},
        }
        (await self.kube.post(GPU_STORAGES.path(namespace=self.namespace), body)).ok(201)
        return name

    async def make_class(self, short: str, *, grows: bool) -> str:
        name = self.name(short)
        body = {
            "apiVersion": STORAGE_CLASSES.api_version,
            "kind": "StorageClass",
            "metadata": {"name": name},
            "provisioner": HOST_PATH,
            "allowVolumeExpansion": grows,
        }
        (await self.kube.post(STORAGE_CLASSES.path(), body)).ok(201)
        return name

    def path(self, resource: Resource[Any], name: str, subresource: str = "") -> str:
        return resource.path(namespace=self.namespace, name=name, subresource=subresource)

    def claim_path(self, storage: str) -> str:
        return self.path(VOLUME_CLAIMS, storage)

    async def touch(self, path: str, moment: str) -> str:
        """Make the manager reconcile the object again, and give it the time to do so.

        Return the object's version, which stays the same if the reconcile writes nothing.
        """
        patch = {"metadata": {"annotations": {"tests/touched": moment}}}
        touched = (await self.kube.patch(path, patch)).ok(200)
        await asyncio.sleep(1.0)
        return str(touched["metadata"]["resourceVersion"])

    async def jobs(self, storage: str) -> list[Document]:
        return await self._labelled(JOBS, labels.STORAGE, storage)

    async def pods(self, label: str, value: str) -> list[Document]:
        """Return the Pods with the label that are not being deleted."""
        found = await self._labelled(PODS, label, value)
        return [each for each in found if "deletionTimestamp" not in each["metadata"]]

    async def job_pod(self, storage: str) -> Document:
        """Return the pending Pod that is to fill the storage."""

        async def look() -> list[Document]:
            found = await self.pods(labels.PREPARE, storage)
            return [each for each in found if each["status"]["phase"] == "Pending"]

        found: list[Document] = await self.until(look, lambda found: len(found) == 1)
        return found[0]

    async def unit_pod(self, unit: str) -> Document:
        """Return the unit's only Pod."""

        async def look() -> list[Document]:
            return await self.pods(labels.UNIT, unit)

        found: list[Document] = await self.until(look, lambda found: len(found) == 1)
        return found[0]

    async def end_job(self, storage: str, *, words: str = "") -> None:
        """End the prepare, with success, or with a failure if `words` are given."""
        pod = await self.job_pod(storage)
        terminated = {
            "exitCode": 3 if words else 0,
            "reason": "Error" if words else "Completed",
            "message": words,
        }
        status = {"phase": "Failed" if words else "Succeeded"}
        await self.tell(pod, {"terminated": terminated}, **status)

    async def tell(self, pod: Document, state: Document, **status: str) -> None:
        """Write the state of the Pod's only container, as a kubelet would."""
        container = pod["spec"]["containers"][0]
        told = {
            "name": container["name"],
            "image": container["image"],
            "imageID": "",
            "ready": False,
            "restartCount": 0,
            "state": state,
        }
        path = self.path(PODS, pod["metadata"]["name"], "status")
        (await self.kube.patch(path, {"status": {"containerStatuses": [told], **status}})).ok(200)

    async def place(self, pod: Document, node: str) -> None:
        """Bind the Pod to the node, whatever the node has left."""
        name = pod["metadata"]["name"]
        target = {"apiVersion": "v1", "kind": "Node", "name": node}
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": name},
            "target": target,
        }
        (await self.kube.post(self.path(PODS, name, "binding"), body)).ok(201)

    @asynccontextmanager
    async def unreachable(self, pod: Document) -> AsyncIterator[None]:
        """Keep the Pod from ending until the block is left, as if its kubelet was unreachable."""
        path = self.path(PODS, pod["metadata"]["name"])
        held = {"metadata": {"finalizers": ["tests.example.com/held"]}}
        (await self.kube.patch(path, held)).ok()
        self.put_to_work(False)
        try:
            yield
        finally:
            self.put_to_work(True)
        await self.kube.patch(path, {"metadata": {"finalizers": None}})

    async def until(self, look: Callable[[], Awaitable[Any]], holds: Holds) -> Any:
        return await eventually(
            look, holds, within_seconds=WAIT_SECONDS, poll_seconds=POLL_SECONDS
        )

    async def _labelled(self, resource: Resource[Any], label: str, value: str) -> list[Document]:
        path = resource.path(namespace=self.namespace)
        found = (await self.kube.get(path, labelSelector=f"{label}={value}")).ok()
        items: list[Document] = found["items"]
        return items


def is_ready(view: Any) -> bool:
    return bool(view["phase"] == "Ready" and view["observedGeneration"] == view["generation"])


def condition(view: Any, type_: str) -> Document:
    found: Document = next(each for each in view["conditions"] if each["type"] == type_)
    return found


@asynccontextmanager
async def embedded(prefix: str, *, helper_cpu: str = TOO_MUCH) -> AsyncIterator[StorageWorld]:
    """Yield a world on its own embedded cluster, in virtual time."""
    pace = Pace(stop_seconds=STOP_SECONDS)
    cluster = EmbeddedCluster(now=_virtual_now, options=ClusterOptions(pace=pace))
    settings = Settings(
        listen=Address("127.0.0.1", 0),
        operations=OperationsSettings(listen=Address("127.0.0.1", 0)),
        leaderElection=LeaderElectionSettings(enabled=False),
        helpers=HelperSettings(cpu=Amount(helper_cpu)),
    )
    async with asyncio.TaskGroup() as tasks:
        running = [tasks.create_task(cluster.run(), name="cluster")]
        await cluster.ready.wait()
        await install(Client(cluster.transport), settings)
        manager = manager_role(settings, transport=cluster.transport)
        api = api_role(settings, transport=cluster.transport)
        running += [tasks.create_task(role.run()) for role in (manager, api)]
        serving = await api.opened()
        await serving.serving()
        async with aiohttp.ClientSession() as session:
            kube = Api(InProcessTransport(cluster.server), _never, deadline_seconds=WAIT_SECONDS)
            yield StorageWorld(
                kube=kube,
                namespace=settings.namespaces.instance,
                prefix=prefix,
                session=session,
                address=serving.address,
                put_to_work=lambda _: None,
            )
        for role in (api, manager):
            await role.drain()
        for task in running:
            task.cancel()


@asynccontextmanager
async def real(made: Installation, api: Process, prefix: str) -> AsyncIterator[StorageWorld]:
    """Yield a world on processes that other tests share."""
    plane = made.plane
    tls = ssl.create_default_context(cafile=plane.certificate)
    bearer = {"Authorization": f"Bearer {plane.token}"}
    async with (
        aiohttp.ClientSession(headers=bearer) as admin,
        aiohttp.ClientSession() as session,
    ):
        transport = PlainTransport(admin, plane.url, tls)
        yield StorageWorld(
            kube=Api(transport, _never, deadline_seconds=WAIT_SECONDS),
            namespace=made.instance,
            prefix=prefix,
            session=session,
            address=api.address,
            put_to_work=lambda works: (plane.start if works else plane.kill)("kwok"),
        )


async def _never() -> None:
    raise NotImplementedError("history is kept here")


def _virtual_now() -> datetime:
    """Return a time that moves with the loop; age counts in whole seconds of it."""
    return BEGIN + timedelta(seconds=asyncio.get_running_loop().time())
