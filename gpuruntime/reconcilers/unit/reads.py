"""Caches that the observation of a unit reads, each with the changes that wake the unit.

A test compares both: it changes every member of every object that is read here. If the plan or
the status of the unit changes, the unit must be woken, or have a time to look again.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

import attrs

from gpuruntime.models.kinds import provenance
from gpuruntime.models.kinds.storages import GPUStorage
from gpuruntime.models.kinds.units import CHILD_PREFIX, GPUUnit, child_key
from gpuruntime.models.kubernetes.metadata import Key
from gpuruntime.models.kubernetes.network import NetworkPolicy, Service
from gpuruntime.models.kubernetes.pods import Pod
from gpuruntime.models.kubernetes.workloads import Deployment
from gpuruntime.operations.lookup.caches import FUNCTION, OPERATION, STORAGE, WORKER_OF
from gpuruntime.reconcilers.caches import Caches, by_unit
from gpuruntime.reconcilers.predicates import (
    WAITING,
    asked,
    declared,
    has_replicas,
    is_news,
    limited,
    mounted,
    offered,
    readiness,
    staffed,
    trouble,
    unit_name,
)
from gpuruntime.reconcilers.unit.start_stages import shows_progress
from gpuruntime.workqueue.queue import Lane


@attrs.frozen(kw_only=True, slots=True)
class Read:
    """Objects that are read of one cache; `cache` is its name in Caches.

    `is_read` returns whether a change from the first to the second object changes a part that is
    read; each may be None. `wakes` returns the units that read the object.
    """

    cache: str
    what: str
    is_read: Callable[[Any, Any], bool]
    wakes: Callable[[Caches, Any], Iterable[Key]]
    lane: Lane = Lane.NEW


def by(*parts: Callable[[Any], object]) -> Callable[[Any, Any], bool]:
    return lambda old, new: any(part(old) != part(new) for part in parts)


def _operation(unit: GPUUnit | None) -> str:
    return provenance.operation_of(unit) if unit else ""


def _itself(_: Caches, unit: GPUUnit) -> Iterator[Key]:
    yield unit.metadata.key


def _rivals(caches: Caches, unit: GPUUnit) -> Iterable[Key]:
    operation = _operation(unit)
    return _keys(caches.units.store.by_index(OPERATION, operation)) if operation else ()


def _workers(caches: Caches, template: GPUUnit) -> Iterable[Key]:
    return _keys(caches.units.store.by_index(WORKER_OF, template.metadata.uid))


def _declarers(caches: Caches, template: GPUUnit) -> Iterable[Key]:
    found = declared(template)
    return _keys(caches.units.store.by_index(FUNCTION, found[1])) if found else ()


def _mounting(caches: Caches, unit: GPUUnit) -> Iterator[Key]:
    for mount in unit.spec.storageMounts:
        yield from _keys(caches.units.store.by_index(STORAGE, mount.name))


def _waiting_for_storage(caches: Caches, storage: GPUStorage) -> Iterator[Key]:
    """Yield the units that mount it, and units that wait for their other storages."""
    for unit in tuple(caches.units.store.by_index(STORAGE, storage.metadata.name)):
        yield from _mounting(caches, unit)


def _waiting_for_stock(caches: Caches, stock: GPUUnit) -> Iterable[Key]:
    return _keys(caches.units.store.by_index(WAITING, stock.spec.specName))


def _owner(caches: Caches, child: Deployment | Service | NetworkPolicy) -> Iterator[Key]:
    """Yield the unit that has a child of this name, whatever labels and owners it has by now.

    The name of a child says which unit that is, unless it was cut; then owner and label do.
    """
    metadata = child.metadata
    owner = metadata.controller_owner
    plain = metadata.name.removeprefix(CHILD_PREFIX)
    for name in dict.fromkeys((plain, owner.name if owner else "", unit_name(child))):
        key = Key(metadata.namespace, name)
        unit = caches.units.store.get(key) or caches.stock.store.get(key)
        if unit is not None and child_key(unit) == metadata.key:
            yield key


def _runner(caches: Caches, pod: Pod) -> Iterator[Key]:
    """Yield the unit that the Pod's label names, unless it is gone; its Pods outlive it."""
    key = Key(pod.metadata.namespace, unit_name(pod))
    if caches.units.store.get(key) or caches.stock.store.get(key):
        yield key


def _starting_owner(caches: Caches, pod: Pod) -> Iterator[Key]:
    """Yield the owner if it is active and not ready; stock does not report how its Pod starts."""
    for key in _runner(caches, pod):
        unit = caches.units.store.get(key)
        if unit is not None and not provenance.is_ready(unit):
            yield key


def _mounting_owner(caches: Caches, deployment: Deployment) -> Iterator[Key]:
    """Yield the owner if it mounts storages: while it waits for one, it may run as before."""
    for key in _owner(caches, deployment):
        unit = caches.units.store.get(key)
        if unit is not None and unit.spec.storageMounts:
            yield key


def _keys(units: Iterable[GPUUnit]) -> tuple[Key, ...]:
    return tuple(unit.metadata.key for unit in units)


def _becomes_free(old: GPUUnit | None, new: GPUUnit | None) -> bool:
    was_free = old is not None and provenance.is_free(old)
    return new is not None and provenance.is_free(new) and not was_free


def _limits_change(old: GPUUnit | None, new: GPUUnit | None) -> bool:
    """Return whether workers receive other limits; they are deleted with their template."""
    return new is not None and limited(old) != limited(new)


def _deployment_changes(old: Deployment | None, new: Deployment | None) -> bool:
    return is_news(old, new) or readiness(old) != readiness(new)


def _pod_changes(old: Pod | None, new: Pod | None) -> bool:
    """Return whether a Pod becomes ready, fails or ends; a new one shows nothing yet."""
    if old is None or new is None:
        return new is None or trouble(old) != trouble(new)
    is_relabelled = (*by_unit(old),) != (*by_unit(new),)
    return is_relabelled or trouble(old) != trouble(new)


def _start_changes(old: Pod | None, new: Pod | None) -> bool:
    return new is not None and shows_progress(old, new)


READS: Final = (
    Read(cache="units", what="the unit itself", is_read=by(asked, staffed), wakes=_itself),
    Read(cache="units", what="rivals of its operation", is_read=by(_operation), wakes=_rivals),
    Read(cache="units", what="its template", is_read=_limits_change, wakes=_workers),
    Read(cache="units", what="owner of its function", is_read=by(declared), wakes=_declarers),
    Read(cache="units", what="units beside it in line", is_read=by(mounted), wakes=_mounting),
    Read(
        cache="storages",
        what="storages that it mounts",
        is_read=by(offered),
        wakes=_waiting_for_storage,
    ),
    Read(
        cache="stock",
        what="stock that it may claim",
        is_read=_becomes_free,
        wakes=_waiting_for_stock,
    ),
    Read(
        cache="deployments",
        what="its Deployment",
        is_read=_deployment_changes,
        wakes=_owner,
        lane=Lane.BEGUN,
    ),
    Read(
        cache="deployments",
        what="whether its Deployment has Pods",
        is_read=by(has_replicas),
        wakes=_mounting_owner,
        lane=Lane.BEGUN,
    ),
    Read(cache="services", what="its Service", is_read=is_news, wakes=_owner, lane=Lane.BEGUN),
    Read(cache="policies", what="its policy", is_read=is_news, wakes=_owner, lane=Lane.BEGUN),
    Read(cache="pods", what="its Pods", is_read=_pod_changes, wakes=_runner, lane=Lane.BEGUN),
    Read(
        cache="pods",
        what="the progress of a slow start",
        is_read=_start_changes,
        wakes=_starting_owner,
        lane=Lane.BEGUN,
    ),
)
# Read for the next Pod only: they change nothing of a Deployment that exists, and wake no unit.
SURROUNDINGS: Final = {
    "priorities": "the PriorityClass of its Pods",
    "stock": "the node of its stock",
}
