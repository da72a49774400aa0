"""Store of the objects of one kind, with indexes."""

from collections.abc import Callable, Collection, Hashable, ItemsView, Iterable, KeysView, Mapping
from typing import Generic, TypeVar

from gpuruntime.kube.errors import MalformedAnswerError
from gpuruntime.models.kubernetes.metadata import Key, KubernetesObject

ObjectT = TypeVar("ObjectT", bound=KubernetesObject)

# Returns the values under which an object is found. It depends on the object alone.
Index = Callable[[ObjectT], Iterable[Hashable]]


def version_of(value: KubernetesObject) -> int:
    try:
        return int(value.metadata.resourceVersion)
    except ValueError as error:
        raise _no_number(value.metadata.resourceVersion, str(value.metadata.key)) from error


def version_number(text: str, subject: str) -> int:
    """Return the version as a number; versions of one collection are comparable as numbers."""
    try:
        return int(text)
    except ValueError as error:
        raise _no_number(text, subject) from error


def _no_number(text: str, subject: str) -> MalformedAnswerError:
    return MalformedAnswerError(
        f"{subject} carries the resourceVersion {text!r}, which is no number: "
        f"check that the address is an API server's"
    )


class Tables(Generic[ObjectT]):
    """Tables hold the objects, and each index over them, always in step."""

    def __init__(self, indexes: Mapping[str, Index[ObjectT]]) -> None:
        self.objects: dict[Key, ObjectT] = {}
        self.indexed: dict[str, dict[Hashable, dict[Key, ObjectT]]] = {
            name: {} for name in indexes
        }
        self._indexes = indexes

    def put(self, key: Key, new: ObjectT) -> ObjectT | None:
        """Store the object; return the one that it replaced, or None."""
        old = self.objects.get(key)
        self.objects[key] = new
        for name, index in self._indexes.items():
            table = self.indexed[name]
            values = tuple(index(new))
            if old is not None:
                self._drop(table, key, (value for value in index(old) if value not in values))
            for value in values:
                if value in table:
                    table[value][key] = new
                else:
                    table[value] = {key: new}
        return old

    def remove(self, key: Key) -> ObjectT | None:
        """Remove the object and return it, or None if it was not there."""
        old = self.objects.pop(key, None)
        if old is not None:
            for name, index in self._indexes.items():
                self._drop(self.indexed[name], key, index(old))
        return old

    def take_over(self, other: "Tables[ObjectT]") -> dict[Key, ObjectT]:
        """Replace everything at once; return the previous objects, which the caller then owns."""
        before = self.objects
        self.objects, self.indexed = other.objects, other.indexed
        return before

    @staticmethod
    def _drop(
        table: dict[Hashable, dict[Key, ObjectT]], key: Key, values: Iterable[Hashable]
    ) -> None:
        for value in values:
            found = table.get(value)
            if found is not None and found.pop(key, None) is not None and not found:
                del table[value]


class Store(Generic[ObjectT]):
    """Read-only view of the tables. Nothing is copied: a result is valid until the next await."""

    def __init__(self, tables: Tables[ObjectT]) -> None:
        self._tables = tables

    def get(self, key: Key) -> ObjectT | None:
        return self._tables.objects.get(key)

    def by_index(self, name: str, value: Hashable) -> Collection[ObjectT]:
        found = self._tables.indexed[name].get(value)
        return found.values() if found is not None else ()

    def keys(self) -> KeysView[Key]:
        return self._tables.objects.keys()

    def values(self) -> Collection[ObjectT]:
        return self._tables.objects.values()

    def items(self) -> ItemsView[Key, ObjectT]:
        return self._tables.objects.items()

    def __contains__(self, key: Key) -> bool:
        return key in self._tables.objects

    def __len__(self) -> int:
        return len(self._tables.objects)
