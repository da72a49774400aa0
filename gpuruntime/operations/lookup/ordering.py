"""Values in the order of their places, kept as they come and go: a page costs no sorting."""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from typing import Final, Generic, TypeAlias, TypeVar

from gpuruntime.models.kubernetes.metadata import Key, KubernetesObject
from gpuruntime.operations.lookup.caches import Cache

ValueT = TypeVar("ValueT")
ObjectT = TypeVar("ObjectT", bound=KubernetesObject)

# No name has it, so it sorts after all that may follow in a place.
BEYOND: Final = "\U0010ffff"
# What a list is sorted by, such as a name and, where names may be equal, a namespace.
Place: TypeAlias = tuple[str, ...]


class Ordered(Generic[ValueT]):
    """One value a place."""

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
        """Of a place that has a value."""
        index = bisect_left(self._places, place)
        del self._places[index], self._values[index]

    def after(self, place: Place) -> Iterator[ValueT]:
        """Beyond all places that begin like this one; the empty place is before all others."""
        return map(self._values.__getitem__, range(self._start(place), len(self._values)))

    def some_after(self, place: Place, count: int) -> list[ValueT]:
        """As many of those as there are, at most."""
        start = self._start(place)
        return self._values[start : start + count]

    def _start(self, place: Place) -> int:
        return bisect_right(self._places, (*place, BEYOND)) if place else 0


class OrderedCache(Generic[ObjectT]):
    """The objects of a cache by the places that they say they have; None: in no list."""

    def __init__(self, cache: Cache[ObjectT], place_of: Callable[[ObjectT], Place | None]) -> None:
        self._store = cache.store
        self._place_of = place_of
        self._ordered: Ordered[ObjectT] = Ordered()
        self._places: dict[Key, Place] = {}
        for value in cache.store.values():
            self._heed(value.metadata.key)
        cache.add_handler(self._heed)

    def after(self, place: Place) -> Iterator[ObjectT]:
        return self._ordered.after(place)

    def _heed(self, key: Key, *_: ObjectT | None) -> None:
        """Shares the store's own value, so that no object is held twice."""
        held, was = self._store.get(key), self._places.pop(key, None)
        now = self._place_of(held) if held is not None else None
        if was is not None and was != now:
            self._ordered.remove(was)
        if now is not None and held is not None:
            self._ordered.put(now, held)
            self._places[key] = now
