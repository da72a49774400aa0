"""The caches that the reconcilers of stock and of pools read, and what for.

A change of what is read there enqueues the key, unless the sentence begins with `none`.
"""

from typing import Final

STOCK_READS: Final = {
    "stock": "itself",
    "units": "its claimant: whether it is there, names this stock, and has started",
    "pools": "its pool: whether it is there, and which ordinals it has recorded",
}
POOL_READS: Final = {
    "pools": "itself, and the pool that decides the envelope; a refused pool looks again by time",
    "stock": "its units: their phases, claims and ends",
    "units": "none: they took its stock, and a pool has counted that stock before",
}
