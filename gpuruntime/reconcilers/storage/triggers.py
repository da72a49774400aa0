"""Triggers of storages: which changes enqueue which storages."""

from collections.abc import Iterable
from typing import Any, Final

from gpuruntime.concurrency.leadership import Leadership
from gpuruntime.meter import Meter
from gpuruntime.models.kinds import labels
from gpuruntime.models.kinds.storages import GPU_STORAGES, GPUStorage, awaited, source_in_use
from gpuruntime.models.kinds.units import GPUUnit
from gpuruntime.models.kubernetes.metadata import Key, KubernetesObject
from gpuruntime.models.kubernetes.pods import Pod
from gpuruntime.models.kubernetes.workloads import Deployment
from gpuruntime.operations.lookup.caches import Handler
from gpuruntime.reconcilers.caches import HOLDER
from gpuruntime.reconcilers.informers import Informers
from gpuruntime.reconcilers.predicates import asked, is_news, mounted, offered, trouble, unit_name
from gpuruntime.workqueue.queue import Lane, WorkQueue

# The caches that a storage's reconcile reads, and what for. What changes there enqueues it.
READS: Final = {
    "storages": "itself, what it copies, the chain of copies, and what copies it",
    "units": "whether its holder still mounts it",
    "pods": "its helpers, its holder's Pods, and others that mount it",
    "claims": "its claim, or a foreign one of its name",
    "classes": "whether its claim binds late and may grow",
    "jobs": "its prepare, and those that copy it",
    "deployments": "its file server",
    "services": "drift of its file server's Service",
    "policies": "drift of its NetworkPolicies",
}


class StorageTriggers:
    """StorageTriggers owns the queue of storages, and adds keys by informers' events."""

    def __init__(
        self,
        informers: Informers,
        leadership: Leadership,
        *,
        namespace: str,
        meter: Meter,
    ) -> None:
        self.storages: WorkQueue[Key] = WorkQueue("storage", meter=meter)
        self._informers = informers
        self._namespace = namespace
        self._leadership = leadership
        leadership.on_begin(self._add_backlog)
        self._listen()

    def _add_backlog(self) -> None:
        for storage in self._informers.storages.store.values():
            self.storages.add(storage.metadata.key, lane=Lane.BACKLOG)

    def _listen(self) -> None:
        informers, namespace = self._informers, self._namespace
        handlers: dict[str, Handler[Any]] = {
            "storages": self._on_storage,
            "units": self._on_unit,
            "pods": self._on_pod,
            "claims": self._on_claim,
            "classes": self._on_class,
            "jobs": self._on_helper,
            "services": self._on_helper,
            "policies": self._on_helper,
            "deployments": self._on_deployment,
        }
        for cache in READS:
            found = getattr(informers, cache)
            informer = found[namespace] if isinstance(found, dict) else found
            informer.add_handler(handlers[cache])

    def _on_storage(self, key: Key, old: GPUStorage | None, new: GPUStorage | None) -> None:
        """Enqueue the storage, and those that copy it if what they see of it has changed.

        The end of a copy enqueues its source, whose deletion may wait for that.
        """
        if not self._leadership.is_leading:
            return
        if new is not None and (asked(old) != asked(new) or _holder(old) != _holder(new)):
            self.storages.add(key)
        source = _source(old)
        if source and source != _source(new):
            self.storages.add(Key(key.namespace, source))
        if offered(old) != offered(new) or _awaited(old) != _awaited(new):
            copying = (
                each
                for each in self._informers.storages.store.values()
                if each.spec.prepare and each.spec.prepare.fromStorageName == key.name
            )
            self._enqueue(self.storages, copying)

    def _on_unit(self, _: Key, old: GPUUnit | None, new: GPUUnit | None) -> None:
        """Enqueue the storages that the unit mounts if its mounts or its waiting change."""
        if not self._leadership.is_leading or mounted(old) == mounted(new):
            return
        names = {mount.name for unit in (old, new) if unit for mount in unit.spec.storageMounts}
        for name in names:
            self.storages.add(Key(self._namespace, name))

    def _on_pod(self, _: Key, old: Pod | None, new: Pod | None) -> None:
        if not self._leadership.is_leading:
            return
        is_placed = (new.spec.nodeName if new else "") != (old.spec.nodeName if old else "")
        is_relabelled = old is not None and _marks(old) != _marks(new)
        if trouble(old) != trouble(new) or new is None or is_placed or is_relabelled:
            for pod in (old, new):
                self._enqueue_owner(pod)
                self._enqueue_held(unit_name(pod))

    def _on_claim(self, key: Key, *_: object) -> None:
        """Enqueue the storage of this name, which also waits for a claim that is not its own."""
        if self._leadership.is_leading and key in self._informers.storages.store:
            self.storages.add(key)

    def _on_helper(self, _: Key, old: Any, new: Any) -> None:
        if self._leadership.is_leading:
            self._enqueue_owner(old)
            self._enqueue_owner(new)

    def _on_deployment(self, _: Key, old: Deployment | None, new: Deployment | None) -> None:
        """Enqueue held storages: without a Pod, the mount in a unit's template still holds one."""
        if not self._leadership.is_leading:
            return
        for value in (old, new):
            self._enqueue_owner(value)
            if new is None or is_news(old, new):
                self._enqueue_held(unit_name(value))

    def _on_class(self, *_: object) -> None:
        """Enqueue every storage; classes change rarely, and any storage may depend on one."""
        if self._leadership.is_leading:
            self._enqueue(self.storages, self._informers.storages.store.values())

    def _enqueue_owner(self, value: KubernetesObject | None) -> None:
        """Enqueue the storage of a helper by label and owner, since either may be edited."""
        if value is None:
            return
        names = {value.metadata.labels.get(labels.STORAGE, "")}
        owner = value.metadata.controller_owner
        if owner is not None and owner.kind == GPU_STORAGES.kind:
            names.add(owner.name)
        for name in names - {""}:
            self.storages.add(Key(self._namespace, name))

    def _enqueue_held(self, unit: str) -> None:
        if unit:
            held = self._informers.storages.store.by_index(HOLDER, unit)
            self._enqueue(self.storages, held)

    @staticmethod
    def _enqueue(queue: WorkQueue[Key], values: Iterable[KubernetesObject]) -> None:
        for value in values:
            queue.add(value.metadata.key)


def _marks(pod: Pod | None) -> object:
    return (pod.metadata.labels, pod.metadata.ownerReferences) if pod else None


def _awaited(storage: GPUStorage | None) -> object:
    """Return the prepare that is still to succeed, by which a cycle of copies is found."""
    return awaited(storage) if storage else None


def _source(storage: GPUStorage | None) -> str:
    return source_in_use(storage) if storage else ""


def _holder(storage: GPUStorage | None) -> object:
    return storage.status.holder if storage else None
