"""A cache that notes its reads, for tests of what an observation reads."""

from typing import Any

from gpuruntime.operations.lookup.caches import Cache, Store


class NotedCache:
    """A cache that notes each access to its store."""

    def __init__(self, cache: Cache[Any], name: str, reads: set[str]) -> None:
        self._cache = cache
        self._name = name
        self._reads = reads

    @property
    def store(self) -> Store[Any]:
        self._reads.add(self._name)
        return self._cache.store

    def add_handler(self, handler: Any) -> None:
        self._cache.add_handler(handler)

    def write_through(self, written: Any) -> bool:
        return self._cache.write_through(written)
