"""A mapping that keeps the latest entries only."""

from collections.abc import Hashable
from typing import Generic, TypeVar

KeyT = TypeVar("KeyT", bound=Hashable)
ValueT = TypeVar("ValueT")
DefaultT = TypeVar("DefaultT")


class Latest(Generic[KeyT, ValueT]):
    """A mapping of at most `most` entries. A new entry is the latest and drops the oldest."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._entries: dict[KeyT, ValueT] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: KeyT) -> bool:
        return key in self._entries

    def get(self, key: KeyT, default: DefaultT) -> ValueT | DefaultT:
        return self._entries.get(key, default)

    def put(self, key: KeyT, value: ValueT) -> list[ValueT]:
        """Make this the latest entry. Return the values that are no longer kept."""
        dropped = [self._entries.pop(key)] if key in self._entries else []
        self._entries[key] = value
        while len(self._entries) > self._most:
            dropped.append(self.pop_oldest())
        return dropped

    def pop_oldest(self) -> ValueT:
        return self._entries.pop(next(iter(self._entries)))

    def discard(self, key: KeyT) -> None:
        self._entries.pop(key, None)

    def clear(self) -> None:
        self._entries.clear()
