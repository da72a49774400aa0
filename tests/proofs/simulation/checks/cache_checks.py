"""Checks of a process's caches: they never go back, and are complete before the process leads."""

from collections.abc import Callable, Iterator
from typing import Any

from gpuruntime.embedded.apiserver.server import Server
from gpuruntime.embedded.objects.selection import Selection
from gpuruntime.embedded.objects.store import Collection
from gpuruntime.informer.informer import Informer
from gpuruntime.informer.store import version_of
from gpuruntime.kube.transport import Request
from gpuruntime.models.kubernetes.metadata import Key
from gpuruntime.models.kubernetes.selectors import parse_field_selector, parse_label_selector
from tests.faults import WRITES
from tests.proofs.simulation.faults.active_faults import LEASES


class CacheChecks:
    """Checks of one incarnation of a process, run before each of its requests."""

    def __init__(self, name: str, server: Server, breach: Callable[[str], None]) -> None:
        self._name = name
        self._server = server
        self._breach = breach
        self._followed_informers: list[Informer[Any]] = []
        self._led_from: int | None = None
        self._has_led = False

    def follow(self, informers: tuple[Informer[Any], ...]) -> None:
        """Watch informers from before their first list."""
        for informer in informers[len(self._followed_informers) :]:
            self._followed_informers.append(informer)
            informer.add_handler(
                _VersionMonitor(f"{self._name}, {informer.resource}", self._breach).on_change
            )

    def lead(self, needed: tuple[Informer[Any], ...], request: Request) -> None:
        """Check that a leader has seen all that existed when it began, before its first write."""
        if self._led_from is None:
            self._led_from = self._server.store.version
        if self._has_led or request.method not in WRITES or LEASES in request.path:
            return
        self._has_led = True
        for informer in needed:
            for what in unseen(informer, self._server, self._led_from):
                self._breach(f"{self._name} leads, and {what}")


class _VersionMonitor:
    """The latest version of each object that a handler has received."""

    def __init__(self, where: str, breach: Callable[[str], None]) -> None:
        self._where = where
        self._breach = breach
        self._latest: dict[Key, int] = {}

    def on_change(self, key: Key, old: Any, new: Any) -> None:
        version = version_of(new or old)
        if new is not None and version < self._latest.get(key, 0):
            self._breach(f"{self._where}: {key} goes back to an older version")
        self._latest[key] = max(version, self._latest.get(key, 0))


def unseen(informer: Informer[Any], server: Server, version: int) -> Iterator[str]:
    """Yield the changes up to this version that the informer does not have."""
    resource, store = informer.resource, informer.store
    kind = server.registry.find(resource.group, resource.version, resource.plural)
    assert kind is not None
    collection, selection = server.store.collection(kind), informer._reflector._source.selection
    selected = Selection(
        labels=parse_label_selector(selection.label_selector),
        fields=parse_field_selector(selection.field_selector),
    )
    for stored in collection.present(f"{selection.namespace}/" if selection.namespace else ""):
        held = store.get(Key(stored.namespace, stored.name))
        is_old = held is None or version_of(held) < stored.version
        if stored.version <= version and is_old and selected.matches(stored):
            since = held.metadata.resourceVersion if held else "nothing"
            yield f"holds {resource.kind} {stored.path} at {since}, not at {stored.version}"
    for each in store.values():
        key = each.metadata.key
        path = f"{key.namespace}/{key.name}" if key.namespace else key.name
        if collection.get(path) is None and _was_gone(collection, path, version):
            yield f"holds {resource.kind} {path}, which is gone"


def _was_gone(collection: Collection, path: str, version: int) -> bool:
    """Return whether the object was already gone at this version, as far as the history shows."""
    if collection.compacted_version > version:
        return False
    return not any(each.path == path for each in collection.since(version))
