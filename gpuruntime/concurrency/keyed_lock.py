"""One at a time for each name, within this process, so that a look holds until the write."""

import asyncio
from collections.abc import Hashable
from typing import Generic, TypeVar
from weakref import WeakValueDictionary

KeyT = TypeVar("KeyT", bound=Hashable)


class KeyedLock(Generic[KeyT]):
    """A lock lives for as long as somebody has it or waits for it, and no longer."""

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[KeyT, asyncio.Lock] = WeakValueDictionary()

    def __len__(self) -> int:
        return len(self._locks)

    def of(self, key: KeyT) -> asyncio.Lock:
        """To be entered at once; in the order of their coming, within whoever's own deadline."""
        return self._locks.setdefault(key, asyncio.Lock())
