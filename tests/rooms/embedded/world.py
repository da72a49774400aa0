"""An embedded cluster in virtual time, with short methods to create objects and to wait."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import Any, TypeVar

import attrs

from gpuruntime.embedded.cluster import ClusterOptions, EmbeddedCluster
from gpuruntime.embedded.kinds.pod_objects import PODS, Pod
from gpuruntime.embedded.nodes.seed_objects import NodeOptions
from gpuruntime.kube.client import Client
from gpuruntime.kube.errors import NotFoundError
from gpuruntime.kube.transport import MERGE_PATCH, Request
from gpuruntime.models.kubernetes.metadata import Key, KubernetesObject
from gpuruntime.models.kubernetes.resources import Resource
from tests.eventually import eventually
from tests.rooms.embedded.builders import MOMENT, TEMPLATE

ObjectT = TypeVar("ObjectT", bound=KubernetesObject)
Document = dict[str, Any]

NODE = NodeOptions(count=1, cpu="8", memory="32Gi", gpus=8)


@attrs.frozen
class World:
    cluster: EmbeddedCluster
    client: Client

    async def make(self, resource: Resource[ObjectT], name: str, **members: Any) -> ObjectT:
        metadata = {"name": name, **members.pop("metadata", {})}
        namespace = metadata.pop("namespace", "default") if resource.is_namespaced else ""
        body = {"metadata": metadata, **members}
        return await self.client.create(resource, body, namespace=namespace)

    async def pod(self, name: str, *, gpus: int = 0, **members: Any) -> Pod:
        container: Document = {"name": "c", "image": "busybox:1.36"}
        if gpus:
            container["resources"] = {"limits": {"nvidia.com/gpu": str(gpus)}}
        spec = {"containers": [container], **members.pop("spec", {})}
        return await self.make(PODS, name, spec=spec, **members)

    async def get(self, resource: Resource[ObjectT], name: str) -> ObjectT:
        return await self.client.get(resource, self._key(resource, name))

    async def patch(self, resource: Resource[ObjectT], name: str, **patch: Any) -> ObjectT:
        return await self.client.patch(resource, self._key(resource, name), patch)

    async def delete(self, resource: Resource[ObjectT], name: str, **options: Any) -> None:
        await self.client.delete(resource, self._key(resource, name), **options)

    async def all(self, resource: Resource[ObjectT]) -> list[ObjectT]:
        page = await self.client.list_page(resource, limit=0)
        return page.items

    async def until(
        self,
        resource: Resource[ObjectT],
        name: str,
        holds: Callable[[ObjectT], object],
        *,
        seconds: float = 60.0,
    ) -> ObjectT:
        return await eventually(lambda: self.get(resource, name), holds, within_seconds=seconds)

    async def until_gone(
        self, resource: Resource[Any], name: str, *, seconds: float = 60.0
    ) -> None:
        loop = asyncio.get_running_loop()
        due_at = loop.time() + seconds
        try:
            while True:
                found = await self.get(resource, name)
                assert loop.time() < due_at, f"still there after {seconds} s: {found}"
                await asyncio.sleep(0.01)
        except NotFoundError:
            return

    async def events(self, name: str) -> list[str]:
        """Return the Events about objects of this name as `reason: message`, the oldest first."""
        await asyncio.sleep(0.1)
        items = self.raw("/api/v1/namespaces/default/events")["items"]
        about = [each for each in items if each["involvedObject"]["name"] == name]
        about.sort(key=lambda each: int(each["metadata"]["resourceVersion"]))
        return [f"{each['reason']}: {each['message']}" for each in about]

    def raw(self, path: str, patch: Document | None = None) -> Document:
        """Return the whole object, including members that our models omit."""
        body = None if patch is None else json.dumps(patch).encode()
        method = "GET" if patch is None else "PATCH"
        request = Request(method=method, path=path, body=body, content_type=MERGE_PATCH)
        document: Document = json.loads(self.cluster.server.handle(request).body)
        return document

    @staticmethod
    def _key(resource: Resource[Any], name: str) -> Key:
        return Key("default" if resource.is_namespaced else "", name)


@asynccontextmanager
async def running_cluster(*, nodes: NodeOptions = NODE, **options: Any) -> AsyncIterator[World]:
    loop = asyncio.get_running_loop()
    began_at = loop.time()

    def now() -> datetime:
        return MOMENT + timedelta(seconds=loop.time() - began_at)

    cluster = EmbeddedCluster(now=now, options=ClusterOptions(nodes=nodes, **options))
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(cluster.run(), name="cluster")
        await cluster.ready.wait()
        try:
            yield World(cluster, Client(cluster.transport))
        finally:
            running.cancel()


def deployment_spec(*, annotations: Document | None = None, **spec: Any) -> Document:
    """Return a spec; other annotations make another template."""
    metadata = {**TEMPLATE["metadata"], "annotations": annotations or {}}
    template = {**TEMPLATE, "metadata": metadata}
    return {"selector": {"matchLabels": {"app": "web"}}, "template": template, **spec}


def job_spec(
    *, annotations: Document | None = None, policy: str = "Never", **spec: Any
) -> Document:
    containers = [{"name": "c", "image": "busybox:1.36"}]
    pod = {"restartPolicy": policy, "containers": containers}
    return {"template": {"metadata": {"annotations": annotations or {}}, "spec": pod}, **spec}
