"""The only writer of a store: it decides which versions are newer, and calls the handlers.

Changes come from lists, from events, and from the answers to this process's own writes. In any
order, an object never returns to an older version. A deleted object does not come back unless it
was created again. The store's update and the handlers' calls are one step.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Generic, TypeVar

from gpuruntime.concurrency.latest import Latest
from gpuruntime.informer.interning import Interner
from gpuruntime.informer.store import Index, Store, Tables, version_of
from gpuruntime.kube.watch import Change, ChangeType
from gpuruntime.models.kubernetes.metadata import Key, KubernetesObject

ObjectT = TypeVar("ObjectT", bound=KubernetesObject)

# Arguments: the key, the object before (None if it is new), the object now (None if it is
# deleted). If an object was replaced by another of its name unobserved, it is announced as one
# change.
Handler = Callable[[Key, ObjectT | None, ObjectT | None], None]

# The versions of this many latest deletions are kept, so that a late event revives no object.
MOST_TOMBSTONES = 4_096


class Draft(Generic[ObjectT]):
    """A list as far as it was read, kept apart from the store until it is complete."""

    def __init__(
        self,
        held: Store[ObjectT],
        tables: Tables[ObjectT],
        compacted: Interner[ObjectT],
        known_version: int,
    ) -> None:
        self.tables = tables
        # The highest version seen from any source before the first page was requested.
        self.known_version = known_version
        # Objects that this process wrote since then.
        self.written: dict[Key, ObjectT] = {}
        self._held = held
        self._compacted = compacted

    def add(self, items: Iterable[ObjectT]) -> None:
        """Add a page's objects; one that is held at the same version stays the same instance."""
        for item in items:
            key = item.metadata.key
            held = self._held.get(key)
            is_same = held and held.metadata.resourceVersion == item.metadata.resourceVersion
            self.tables.put(key, held if held and is_same else self._compacted(item))


class Writer(Generic[ObjectT]):
    """Writer applies changes without awaiting.

    While a list is read, no events arrive, but answers to writes may.
    """

    def __init__(
        self,
        model: type[ObjectT],
        indexes: Mapping[str, Index[ObjectT]],
        handlers: list[Handler[ObjectT]],
    ) -> None:
        self._indexes = indexes
        self._handlers = handlers
        self._compacted = Interner(model)
        self._tables = Tables(indexes)
        self._draft: Draft[ObjectT] | None = None
        # Every object is held at this version or a later one: by the list, and by events.
        self._listed_version = 0
        self._event_version = 0
        # Deletions among the events since the list, the latest last.
        self._tombstones = Latest[Key, int](MOST_TOMBSTONES)
        # The highest version seen from any source, including the answers to writes.
        self._known_version = 0
        self.store = Store(self._tables)

    def apply(self, change: Change[ObjectT]) -> int:
        """Apply an event unless the store is newer; return the event's version."""
        key, version = change.object.metadata.key, version_of(change.object)
        self.note_version(version)
        held = self.store.get(key)
        if change.type is ChangeType.DELETED:
            if held is None or version >= version_of(held):
                self._remove(key, version)
        elif version > self._version_held(key, held):
            self._put(key, change.object)
        return version

    def note_version(self, version: int) -> None:
        """Note that all changes up to this version have arrived."""
        self._event_version = max(self._event_version, version)
        self._known_version = max(self._known_version, version)

    def write_through(self, written: ObjectT) -> bool:
        """Apply the answer to a write of this process, and return False if it is outdated.

        If the object is not held and the events have passed its version, it was deleted.
        """
        key, version = written.metadata.key, version_of(written)
        held = self.store.get(key)
        if version <= (self._event_version if held is None else version_of(held)):
            return False
        self._known_version = max(self._known_version, version)
        if self._draft is not None:
            self._draft.written[key] = written
        self._put(key, written)
        return True

    def begin_list(self) -> Draft[ObjectT]:
        """Begin a new draft; an earlier one is dropped."""
        self._draft = Draft(
            self.store, Tables(self._indexes), self._compacted, self._known_version
        )
        return self._draft

    def adopt_list(self, draft: Draft[ObjectT], version: int) -> dict[Key, ObjectT]:
        """Replace the store by the list at once; return the objects held before.

        The caller announces the differences, because that may take long.
        """
        self._draft = None
        self._tombstones.clear()
        self._listed_version = self._event_version = self._known_version = version
        for key, written in draft.written.items():
            if version_of(written) > version:
                self._known_version = max(self._known_version, version_of(written))
                draft.tables.put(key, written)
        return self._tables.take_over(draft.tables)

    def announce(self, key: Key, old: ObjectT | None, new: ObjectT | None) -> None:
        for handler in self._handlers:
            handler(key, old, new)

    def _version_held(self, key: Key, held: ObjectT | None) -> int:
        """Return the version that an event must exceed."""
        if held is not None:
            return version_of(held)
        return max(self._listed_version, self._tombstones.get(key, 0))

    def _put(self, key: Key, new: ObjectT) -> None:
        self._tombstones.discard(key)
        self.announce(key, self._tables.put(key, self._compacted(new)), new)

    def _remove(self, key: Key, version: int) -> None:
        self._tombstones.put(key, max(version, self._tombstones.get(key, 0)))
        old = self._tables.remove(key)
        if old is not None:
            self.announce(key, old, None)
