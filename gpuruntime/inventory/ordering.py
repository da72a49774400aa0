"""Units in the order of their names, kept as they come and go, so that a page costs no sorting."""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator

from gpuruntime.inventory.stores import Cache
from gpuruntime.models.metadata import Key
from gpuruntime.models.units import GPUUnit


class UnitsByName:
    """Over one or several caches, which have to be empty yet: it hears of every object."""

    def __init__(self, *caches: Cache[GPUUnit]) -> None:
        self._names: list[tuple[str, str]] = []
        for cache in caches:
            cache.add_handler(self._heed)

    def after(self, key: Key | None) -> Iterator[Key]:
        """By name, then namespace; the store may have lost an object a moment before us."""
        start = bisect_right(self._names, (key.name, key.namespace)) if key else 0
        for name, namespace in self._names[start:]:
            yield Key(namespace, name)

    def _heed(self, key: Key, _: GPUUnit | None, now: GPUUnit | None) -> None:
        entry = (key.name, key.namespace)
        place = bisect_left(self._names, entry)
        is_listed = place < len(self._names) and self._names[place] == entry
        if now is None and is_listed:
            del self._names[place]
        elif now is not None and not is_listed:
            insort(self._names, entry)
