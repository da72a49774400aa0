"""One at a time for each name, within this process, so that a look holds until the write."""

import asyncio
from weakref import WeakValueDictionary


class KeyedLock:
    """A lock lives for as long as somebody has it or waits for it, and no longer."""

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def __len__(self) -> int:
        return len(self._locks)

    def of(self, name: str) -> asyncio.Lock:
        """To be entered at once; in the order of their coming, within whoever's own deadline."""
        return self._locks.setdefault(name, asyncio.Lock())
