"""The garbage collector: it tracks owners of all kinds and deletes what has lost its owners."""

from collections.abc import Iterable
from typing import Any, Final

from gpuruntime.controller.controller import DONE, Controller, Result
from gpuruntime.embedded.controllers.garbage_graph import (
    Action,
    Delete,
    Disown,
    Graph,
    GraphNode,
    Kind,
    Release,
    decide,
)
from gpuruntime.embedded.controllers.object_patches import wire
from gpuruntime.informer.informer import Informer
from gpuruntime.informer.writer import Handler
from gpuruntime.kube.client import Client
from gpuruntime.kube.errors import NotFoundError
from gpuruntime.models.encoding.json import JsonObject
from gpuruntime.models.kubernetes.metadata import (
    Key,
    KubernetesObject,
    OwnerReference,
    PartialObject,
)
from gpuruntime.models.kubernetes.resources import Resource
from gpuruntime.workqueue.queue import WorkQueue

WORKERS: Final = 4
# An owner that exists on the server but not in the graph must arrive within this time.
RETRY_SECONDS: Final = 5.0


class GarbageCollector:
    """The garbage collector; it follows informers, which the caller runs."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._graph = Graph()
        self._resources: dict[Kind, Resource[PartialObject]] = {}
        self._queue: WorkQueue[str] = WorkQueue("garbage")
        self._controller = Controller("garbage", self._queue, self.reconcile, workers=WORKERS)

    def follow(self, informer: Informer[Any]) -> None:
        """Follow an informer; call this before the informer runs."""
        resource = informer.resource
        kind = (resource.api_version, resource.kind)
        self._resources[kind] = metadata_of(resource)
        informer.add_handler(self._handler(kind))

    async def run(self) -> None:
        await self._controller.run()

    async def reconcile(self, uid: str) -> Result:
        absent: set[str] = set()
        present: set[str] = set()
        decision = decide(self._graph, uid)
        if decision.unknown_owners:
            node = self._graph.get(uid)
            for owner in decision.unknown_owners if node else ():
                exists = await self._exists(owner, node.key.namespace if node else "")
                (present if exists else absent).add(owner.uid)
            decision = decide(self._graph, uid, absent=absent, present=present)
        for action in decision.actions:
            await self._do(action)
        return Result(RETRY_SECONDS) if present else DONE

    async def _exists(self, owner: OwnerReference, namespace: str) -> bool:
        """Return whether the owner exists; owners of an unknown kind count as present."""
        resource = self._resources.get((owner.apiVersion, owner.kind))
        if resource is None:
            return True
        key = Key(namespace if resource.is_namespaced else "", owner.name)
        try:
            found = await self._client.get(resource, key)
        except NotFoundError:
            return False
        return found.metadata.uid == owner.uid

    async def _do(self, action: Action) -> None:
        resource, key = self._resources[action.node.kind], action.node.key
        try:
            match action:
                case Delete():
                    await self._client.delete(
                        resource, key, uid=action.node.uid, propagation=action.propagation
                    )
                case Disown():
                    await self._disown(resource, action)
                case Release():
                    await self._release(resource, action)
        except NotFoundError:
            return

    async def _disown(self, resource: Resource[PartialObject], action: Disown) -> None:
        found = await self._client.get(resource, action.node.key)
        owners = found.metadata.ownerReferences
        kept: list[JsonObject] = [
            wire(owner) for owner in owners if owner.uid not in action.owner_uids
        ]
        await self._patch(resource, found, {"ownerReferences": kept})

    async def _release(self, resource: Resource[PartialObject], action: Release) -> None:
        found = await self._client.get(resource, action.node.key)
        kept = [each for each in found.metadata.finalizers if each != action.finalizer]
        await self._patch(resource, found, {"finalizers": kept})

    async def _patch(
        self, resource: Resource[PartialObject], found: PartialObject, metadata: JsonObject
    ) -> None:
        version = found.metadata.resourceVersion
        await self._client.patch(
            resource, found.metadata.key, {"metadata": metadata}, resource_version=version
        )

    def _handler(self, kind: Kind) -> Handler[Any]:
        def on_change(
            _key: Key, old: KubernetesObject | None, new: KubernetesObject | None
        ) -> None:
            if old is not None and (new is None or new.metadata.uid != old.metadata.uid):
                self._add_all(self._graph.remove(old.metadata.uid))
            if new is not None:
                self._add_all(self._graph.put(GraphNode.of(kind, new.metadata)))

        return on_change

    def _add_all(self, uids: Iterable[str]) -> None:
        """Queue the uids in sorted order, so that runs are reproducible."""
        for uid in sorted(uids):
            self._queue.add(uid)


def metadata_of(resource: Resource[Any]) -> Resource[PartialObject]:
    """Return the same kind, read only for its metadata."""
    return Resource(
        group=resource.group,
        version=resource.version,
        kind=resource.kind,
        plural=resource.plural,
        type=PartialObject,
        is_namespaced=resource.is_namespaced,
    )
