"""The objects of every kind at their current versions, with the history of changes.

One version counter serves all kinds. An object is encoded once, when it is written. One
synchronous step puts the change into the store, the history and the watches.
"""

from bisect import bisect_left, bisect_right, insort
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from sys import intern
from typing import Final, TypeAlias

from gpuruntime.embedded.apiserver.documents import Document, encode
from gpuruntime.embedded.objects.registry import Kind
from gpuruntime.embedded.objects.versions import Change, Stored
from gpuruntime.embedded.objects.watches import Watches

FIRST_VERSION: Final = 1
NO_LABELS: Final[Mapping[str, str]] = {}

Observer: TypeAlias = Callable[[Kind, Change], None]


class Collection:
    """The objects of one kind in etcd's order, and its latest changes.

    A snapshot of an earlier version is the current state with the later changes undone. Changes
    that the history no longer holds are compacted.
    """

    def __init__(self, kind: Kind, history_limit: int, begun_version: int) -> None:
        self.kind = kind
        self.watches = Watches()
        self.version = self.compacted_version = begun_version
        self._objects: dict[str, Stored] = {}
        self._paths: list[str] = []
        self._history: deque[Change] = deque()
        self._history_limit = history_limit

    def __len__(self) -> int:
        return len(self._objects)

    def get(self, path: str) -> Stored | None:
        return self._objects.get(path)

    def present(self, prefix: str = "") -> list[Stored]:
        """Return the objects whose path begins with the prefix, in etcd's order."""
        return list(Snapshot(self._objects, self._paths, {}).objects(prefix, ""))

    def restore(self, stored: Stored) -> None:
        """Take an object of an earlier store; neither history nor watches have a change of it."""
        insort(self._paths, stored.path)
        self._objects[stored.path] = stored

    def record(self, change: Change) -> None:
        """Apply a change; changes must come in the order of their versions."""
        if change.after is None:
            del self._objects[change.path]
            del self._paths[bisect_left(self._paths, change.path)]
        else:
            if change.before is None:
                insort(self._paths, change.path)
            self._objects[change.path] = change.after
        self.version = change.version
        self._history.append(change)
        self.compact(self._history_limit)
        self.watches.publish(change)

    def compact(self, kept: int = 0) -> None:
        """Forget all but the latest changes."""
        while len(self._history) > kept:
            self.compacted_version = self._history.popleft().version

    def since(self, version: int) -> list[Change]:
        """Return the changes after a version that is not compacted, oldest first."""
        later: list[Change] = []
        for change in reversed(self._history):
            if change.version <= version:
                break
            later.append(change)
        return later[::-1]

    def snapshot(self, version: int) -> "Snapshot":
        """Return the collection as it was at a version that is not compacted."""
        past: dict[str, Stored | None] = {}
        for change in self.since(version):
            past.setdefault(change.path, change.before)
        return Snapshot(self._objects, self._paths, past)


class Snapshot:
    """A view of a collection at one version, valid until the next write: it shares its maps."""

    def __init__(
        self, objects: dict[str, Stored], paths: list[str], past: dict[str, Stored | None]
    ) -> None:
        self._objects = objects
        self._past = past
        self._paths = paths
        if any(path not in objects for path in past):
            self._paths = sorted({*paths, *past})

    def objects(self, prefix: str, after: str) -> Iterator[Stored]:
        """Yield in etcd's order the objects whose path has the prefix and sorts after `after`."""
        past, present = self._past, self._objects
        for path in self._paths[bisect_right(self._paths, max(prefix, after)) :]:
            if not path.startswith(prefix):
                return
            stored = past[path] if path in past else present[path]
            if stored is not None:
                yield stored

    def count(self, prefix: str, after: str) -> int:
        """Return how many objects `objects` would yield."""
        if self._past:
            return sum(1 for _ in self.objects(prefix, after))
        end = bisect_left(self._paths, f"{prefix}\U0010ffff")
        return end - bisect_right(self._paths, max(prefix, after))


class Store:
    """All collections; a kind gets one at its first use and loses it with `drop`.

    The observer is called with each change, in the order of their versions.
    """

    def __init__(self, history_limit: int, observer: Observer | None = None) -> None:
        self.version = FIRST_VERSION
        self.history_limit = history_limit
        self._observer = observer
        self._begun_version = 0
        self._collections: dict[tuple[str, str], Collection] = {}
        self._dropped: dict[tuple[str, str], int] = {}

    def collection(self, kind: Kind) -> Collection:
        place = (kind.group, kind.plural)
        found = self._collections.get(place)
        if found is None:
            begun = self._dropped.get(place, self._begun_version)
            found = self._collections[place] = Collection(kind, self.history_limit, begun)
        return found

    def drop(self, kind: Kind) -> None:
        """Close the kind's watches and forget its history."""
        place = (kind.group, kind.plural)
        dropped = self._collections.pop(place, None)
        if dropped is not None:
            self._dropped[place] = self.version
            dropped.watches.close()

    def continue_after(self, version: int) -> None:
        """Continue after the last version of an earlier store, whose history counts as compacted.

        This comes before any collection exists.
        """
        self.version = self._begun_version = version

    def collections(self) -> Iterator[Collection]:
        return iter(list(self._collections.values()))

    def write(self, kind: Kind, path: str, document: Document) -> Stored:
        """Store the document at the next version; the caller must not use it any more."""
        collection = self.collection(kind)
        self.version += 1
        stored = stored_from(kind, path, document, self.version)
        self._record(collection, Change(self.version, path, collection.get(path), stored))
        return stored

    def remove(self, kind: Kind, path: str) -> None:
        """Remove an object, which must exist."""
        collection = self.collection(kind)
        self.version += 1
        self._record(collection, Change(self.version, path, collection.get(path), None))

    def _record(self, collection: Collection, change: Change) -> None:
        collection.record(change)
        if self._observer is not None:
            self._observer(collection.kind, change)


def stored_from(kind: Kind, path: str, document: Document, version: int) -> Stored:
    """Encode a document; version 0 stands for a dry run's new object, which has no version."""
    if version:
        document["metadata"]["resourceVersion"] = str(version)
    rest = {name: value for name, value in document.items() if name not in ("kind", "apiVersion")}
    encoded = encode({"kind": kind.kind, "apiVersion": kind.stored_api_version, **rest})
    # The encoder over-allocates; a copy has the exact size.
    return stored_as(kind, path, document, version, bytes(memoryview(encoded)))


def stored_as(kind: Kind, path: str, document: Document, version: int, body: bytes) -> Stored:
    """Return the object whose encoded form is the body."""
    # Most objects repeat a few label texts: interning keeps one copy of each.
    labels = {
        intern(name): intern(text) for name, text in document["metadata"].get("labels", {}).items()
    }
    return Stored(path, version, body, labels or NO_LABELS, kind.fields_of(document))
