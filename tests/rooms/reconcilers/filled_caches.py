"""Caches of a leader that a test fills by hand; nothing runs, and each read is noted."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from itertools import count
from random import Random
from typing import Any, Final

import attrs

from gpuruntime.concurrency.leadership import Leadership
from gpuruntime.informer.informer import Informer
from gpuruntime.kube.client import Client
from gpuruntime.kube.transport import Request, Response, Socket, StreamResponse
from gpuruntime.meter import NullMeter
from gpuruntime.models.encoding import codec
from gpuruntime.models.encoding.json import JsonValue
from gpuruntime.models.kinds.pools import STOCK_POOLS
from gpuruntime.models.kinds.storages import GPU_STORAGES
from gpuruntime.models.kinds.units import GPU_UNITS
from gpuruntime.models.kubernetes.cluster import EVENTS, PRIORITY_CLASSES
from gpuruntime.models.kubernetes.metadata import Key
from gpuruntime.models.kubernetes.network import NETWORK_POLICIES, SERVICES
from gpuruntime.models.kubernetes.pods import PODS
from gpuruntime.models.kubernetes.resources import Resource
from gpuruntime.models.kubernetes.volumes import JOBS, STORAGE_CLASSES, VOLUME_CLAIMS
from gpuruntime.models.kubernetes.workloads import DEPLOYMENTS
from gpuruntime.operations.lookup.caches import Cache, Store
from gpuruntime.reconcilers.caches import Caches
from gpuruntime.reconcilers.informers import Informers, ReconcilerContext
from gpuruntime.reconcilers.options import UnitOptions
from gpuruntime.workqueue.queue import KeyT, WorkQueue
from tests.rooms.operations.cluster import INSTANCE, STOCK
from tests.rooms.reconcilers.world import SETTLED

# The kind of each cache that observations read, by its name in Caches.
MIRRORED: Final[Mapping[str, Resource[Any]]] = {
    "units": GPU_UNITS,
    "stock": GPU_UNITS,
    "pools": STOCK_POOLS,
    "storages": GPU_STORAGES,
    "deployments": DEPLOYMENTS,
    "services": SERVICES,
    "policies": NETWORK_POLICIES,
    "pods": PODS,
    "claims": VOLUME_CLAIMS,
    "jobs": JOBS,
    "priorities": PRIORITY_CLASSES,
    "classes": STORAGE_CLASSES,
}


class NotedCache:
    """A cache that notes each access to its store."""

    def __init__(self, cache: Cache[Any], name: str, reads: set[str]) -> None:
        self._cache = cache
        self._name = name
        self._reads = reads

    @property
    def store(self) -> Store[Any]:
        self._reads.add(self._name)
        return self._cache.store

    def add_handler(self, handler: Any) -> None:
        self._cache.add_handler(handler)

    def write_through(self, written: Any) -> bool:
        return self._cache.write_through(written)


class FilledCaches:
    """FilledCaches has the informers of a leader, whose API server has what the caches have."""

    def __init__(self, *, options: UnitOptions, now: datetime) -> None:
        server = _Server()
        self.client = Client(server)
        self.informers = Informers(
            ReconcilerContext(
                client=self.client,
                options=options,
                retention_seconds=60.0,
                term=lambda: SETTLED,
                now=lambda: now,
                rng=Random(3),
                meter=NullMeter(),
            )
        )
        server.informers = self.informers
        self.leadership = Leadership()
        # The caches that were read, by their names in Caches.
        self.reads: set[str] = set()
        self._versions = count(1)

    @property
    def noted(self) -> Caches:
        """Return the caches, which note each read."""
        caches, noted = self.informers.caches(), dict[str, Any]()
        for field in attrs.fields(Caches):
            cache = getattr(caches, field.name)
            noted[field.name] = (
                {name: self._noting(each, field.name) for name, each in cache.items()}
                if isinstance(cache, dict)
                else self._noting(cache, field.name)
            )
        return Caches(**noted)

    def lead(self, objects: Iterable[Any]) -> None:
        """Begin to lead with these objects; the triggers must listen already."""
        for each in objects:
            self.put(each)
        self.leadership.begin()

    def put(self, value: Any) -> None:
        metadata = attrs.evolve(value.metadata, resourceVersion=str(next(self._versions)))
        assert self._informer(value).write_through(attrs.evolve(value, metadata=metadata))

    def remove(self, value: Any) -> None:
        self._informer(value)._writer._remove(value.metadata.key, next(self._versions))

    def _informer(self, value: Any) -> Informer[Any]:
        return next(
            informer
            for resource, namespace, informer in mirrors_of(self.informers)
            if isinstance(value, resource.type) and namespace == value.metadata.namespace
        )

    def _noting(self, cache: Cache[Any], name: str) -> NotedCache:
        return NotedCache(cache, name, self.reads)


def mirrors_of(informers: Informers) -> Iterator[tuple[Resource[Any], str, Informer[Any]]]:
    """Yield the kind and the namespace of each informer, with the informer."""
    for name, resource in MIRRORED.items():
        found = getattr(informers, name)
        if isinstance(found, dict):
            yield from ((resource, namespace, each) for namespace, each in found.items())
        else:
            namespace = STOCK if name in ("stock", "pools") else INSTANCE
            yield resource, "" if name in ("priorities", "classes") else namespace, found


def by_cache(*values: Any) -> list[tuple[str, Any]]:
    """Return the objects with the names of the caches that mirror them."""
    return [(_cache_of(each), each) for each in values]


def _cache_of(value: Any) -> str:
    first, *others = [name for name, each in MIRRORED.items() if isinstance(value, each.type)]
    return "stock" if "stock" in others and value.metadata.namespace == STOCK else first


async def drained(*queues: WorkQueue[KeyT]) -> set[KeyT]:
    """Return the keys that are due in the queues, and take them out."""
    found = set[KeyT]()
    for queue in queues:
        while queue.depth:
            key = await queue.get()
            queue.done(key)
            found.add(key)
    return found


class _Server:
    """An API server that has what the caches have, for live reads."""

    informers: Informers

    async def request(self, request: Request) -> Response:
        *_, namespace, plural, name = ("", *request.path.split("/"))
        if name == EVENTS.plural:
            return _list(EVENTS.kind, [])
        for resource, mirrored, informer in mirrors_of(self.informers):
            if (name, plural) == (resource.plural, mirrored):
                label, _, wanted = dict(request.query)["labelSelector"].partition("=")
                found = informer.store.values()
                return _list(resource.kind, [e for e in found if _label(e, label) == wanted])
            is_asked = (plural, namespace) == (resource.plural, mirrored)
            held = informer.store.get(Key(namespace, name)) if is_asked else None
            if held is not None:
                return _answer(200, kind=resource.kind, **codec.to_json(held))
        return _answer(404, kind="Status", reason="NotFound")

    def stream(self, request: Request) -> AbstractAsyncContextManager[StreamResponse]:
        raise NotImplementedError(request.path)

    def socket(
        self, request: Request, protocol: str
    ) -> AbstractAsyncContextManager[Socket | Response]:
        raise NotImplementedError(f"no test here opens a {protocol}: {request.path}")


def _label(value: Any, name: str) -> str:
    return value.metadata.labels.get(name, "")  # type: ignore[no-any-return]


def _list(kind: str, values: list[Any]) -> Response:
    items: list[JsonValue] = [codec.to_json(each) for each in values]
    return _answer(200, kind=f"{kind}List", metadata={"resourceVersion": "1"}, items=items)


def _answer(code: int, /, **members: JsonValue) -> Response:
    return Response(status=code, body=codec.encode(members))
