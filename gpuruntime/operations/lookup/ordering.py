"""Values kept in order as they change, so that a page of a list needs no sorting."""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from typing import Final, Generic, TypeAlias, TypeVar

from gpuruntime.models.kubernetes.metadata import Key, KubernetesObject
from gpuruntime.operations.lookup.caches import Cache

ValueT = TypeVar("ValueT")
ObjectT = TypeVar("ObjectT", bound=KubernetesObject)

# No name contains this character, so it sorts after every place with the same beginning.
BEYOND: Final = "\U0010ffff"
# The sort key of a list, such as a name, and a namespace if names may be equal.
Place: TypeAlias = tuple[str, ...]


class Ordered(Generic[ValueT]):
    """Sorted values, one for each place."""

    def __init__(self) -> None:
        self._places: list[Place] = []
        self._values: list[ValueT] = []

    def __len__(self) -> int:
        return len(self._values)

    def put(self, place: Place, value: ValueT) -> None:
        index = bisect_left(self._places, place)
        if self._places[index : index + 1] == [place]:
            self._values[index] = value
        else:
            self._places.insert(index, place)
            self._values.insert(index, value)

    def remove(self, place: Place) -> None:
        """Remove the value of the place, which must have one."""
        index = bisect_left(self._places, place)
        del self._places[index], self._values[index]

    def after(self, place: Place) -> Iterator[ValueT]:
        """Yield the values after all places that begin with this one; the empty one yields all."""
        return map(self._values.__getitem__, range(self._start(place), len(self._values)))

    def some_after(self, place: Place, count: int) -> list[ValueT]:
        """Return at most `count` of the values after the place."""
        start = self._start(place)
        return self._values[start : start + count]

    def _start(self, place: Place) -> int:
        return bisect_right(self._places, (*place, BEYOND)) if place else 0


class OrderedCache(Generic[ObjectT]):
    """The objects of a cache, sorted by their places. None leaves an object out."""

    def __init__(self, cache: Cache[ObjectT], place_of: Callable[[ObjectT], Place | None]) -> None:
        self._store = cache.store
        self._place_of = place_of
        self._ordered: Ordered[ObjectT] = Ordered()
        self._places: dict[Key, Place] = {}
        for value in cache.store.values():
            self._on_change(value.metadata.key)
        cache.add_handler(self._on_change)

    def after(self, place: Place) -> Iterator[ObjectT]:
        return self._ordered.after(place)

    def _on_change(self, key: Key, *_: ObjectT | None) -> None:
        """Keep the store's own value, so that no object is in memory twice."""
        held, was = self._store.get(key), self._places.pop(key, None)
        now = self._place_of(held) if held is not None else None
        if was is not None and was != now:
            self._ordered.remove(was)
        if now is not None and held is not None:
            self._ordered.put(now, held)
            self._places[key] = now
