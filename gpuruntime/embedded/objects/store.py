"""The objects of every kind at their current versions, with the history of changes.

One version counter serves all kinds. An object is encoded once, when it is written. One
synchronous step puts the change into the store, the history and the watches.
"""

from bisect import bisect_left, bisect_right, insort
from collections import deque
from collections.abc import Iterator, Mapping
from sys import intern
from typing import Final

from gpuruntime.embedded.apiserver.documents import Document, encode
from gpuruntime.embedded.objects.registry import Kind
from gpuruntime.embedded.objects.versions import Change, Stored
from gpuruntime.embedded.objects.watches import Watches

FIRST_VERSION: Final = 1
NO_LABELS: Final[Mapping[str, str]] = {}


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
    """All collections; a kind gets one at its first use and loses it with `drop`."""

    def __init__(self, history_limit: int) -> None:
        self.version = FIRST_VERSION
        self.history_limit = history_limit
        self._collections: dict[tuple[str, str], Collection] = {}
        self._dropped: dict[tuple[str, str], int] = {}

    def collection(self, kind: Kind) -> Collection:
        place = (kind.group, kind.plural)
        found = self._collections.get(place)
        if found is None:
            begun = self._dropped.get(place, 0)
            found = self._collections[place] = Collection(kind, self.history_limit, begun)
        return found

    def drop(self, kind: Kind) -> None:
        """Close the kind's watches and forget its history."""
        place = (kind.group, kind.plural)
        dropped = self._collections.pop(place, None)
        if dropped is not None:
            self._dropped[place] = self.version
            dropped.watches.close()

    def collections(self) -> Iterator[Collection]:
        return iter(list(self._collections.values()))

    def write(self, kind: Kind, path: str, document: Document) -> Stored:
        """Store the document at the next version; the caller must not use it any more."""
        collection = self.collection(kind)
        self.version += 1
        stored = stored_from(kind, path, document, self.version)
        collection.record(Change(self.version, path, collection.get(path), stored))
        return stored

    def remove(self, kind: Kind, path: str) -> None:
        """Remove an object, which must exist."""
        collection = self.collection(kind)
        self.version += 1
        collection.record(Change(self.version, path, collection.get(path), None))


def stored_from(kind: Kind, path: str, document: Document, version: int) -> Stored:
    """Encode a document; version 0 stands for a dry run's new object, which has no version."""
    metadata = document["metadata"]
    if version:
        metadata["resourceVersion"] = str(version)
    rest = {name: value for name, value in document.items() if name not in ("kind", "apiVersion")}
    encoded = encode({"kind": kind.kind, "apiVersion": kind.stored_api_version, **rest})
    # The encoder over-allocates; a copy has the exact size.
    body = bytes(memoryview(encoded))
    # Most objects repeat a few label texts: interning keeps one copy of each.
    labels = {intern(name): intern(text) for name, text in metadata.get("labels", {}).items()}
    return Stored(path, version, body, labels or NO_LABELS, kind.fields_of(document))
