"""The search for the fewest faults of a plan that still make a run fail."""

from collections.abc import Callable, Sequence
from typing import TypeVar

ItemT = TypeVar("ItemT")


def shrunk(items: Sequence[ItemT], fails: Callable[[Sequence[ItemT]], bool]) -> list[ItemT]:
    """Leave out ever smaller parts (delta debugging), until no single item can be left out."""
    kept = list(items)
    size = max(1, len(kept) // 2)
    while kept:
        shorter = _without_a_part(kept, size, fails)
        if shorter is not None:
            kept = shorter
            size = max(1, min(size, len(kept) // 2))
        elif size == 1:
            break
        else:
            size //= 2
    return kept


def _without_a_part(
    items: list[ItemT], size: int, fails: Callable[[Sequence[ItemT]], bool]
) -> list[ItemT] | None:
    for start in range(0, len(items), size):
        rest = items[:start] + items[start + size :]
        if fails(rest):
            return rest
    return None
