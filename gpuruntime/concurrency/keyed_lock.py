"""A lock for each key within this process, so that a read holds until the write after it."""

import asyncio
from collections.abc import Hashable
from typing import Generic, TypeVar
from weakref import WeakValueDictionary

KeyT = TypeVar("KeyT", bound=Hashable)


class KeyedLock(Generic[KeyT]):
    """A lock exists only while a task holds it or waits for it."""

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[KeyT, asyncio.Lock] = WeakValueDictionary()

    def __len__(self) -> int:
        return len(self._locks)

    def of(self, key: KeyT) -> asyncio.Lock:
        """Return the lock of the key; enter it at once, because nothing else keeps it.

        Tasks acquire it in the order of arrival. Each caller bounds its own wait.
        """
        return self._locks.setdefault(key, asyncio.Lock())
