"""Replicas that claim at the same time divide the stock between them.

Replicas share only the API server. They learn of each other by the marks on stock units, which
name the replica that claimed: from a watch, or after a conflict. For a while after that, each
replica tries its own share of the stock first. All of them derive the shares from the same hash,
so that they no longer conflict.

Only the number of conflicts depends on this. The PATCH at the observed version alone decides which
claim gets a stock unit.
"""

from collections.abc import Iterable, Iterator
from random import Random
from typing import Final
from zlib import crc32

from gpuruntime.concurrency.clock import loop_time
from gpuruntime.models.kinds import provenance
from gpuruntime.models.kinds.units import GPUUnit

# A replica that was not met for this long has stopped claiming, or is gone.
REMEMBERED_SECONDS: Final = 60.0
# 2^64 divided by the golden ratio: its products spread over all bits.
MULTIPLIER: Final = 0x9E3779B97F4A7C15


class StockShards:
    """This replica's share of the stock, given the replicas that it has met.

    A conflict within one operation, whose request reached two replicas, is no meeting.
    """

    def __init__(self, rng: Random) -> None:
        self._name = f"{rng.getrandbits(64):016x}"
        self._attempts = 0
        self._met_at: dict[str, float] = {}

    def new_attempt(self) -> str:
        """Return a token that no other attempt has, and that begins with this replica's name."""
        self._attempts += 1
        return f"{self._name}.{self._attempts}"

    def meet(self, stock: GPUUnit) -> None:
        """Note the replica that has claimed the stock unit for another operation."""
        name = provenance.attempt_of(stock).partition(".")[0]
        if name and name != self._name:
            self._met_at[name] = loop_time()

    def our_share(self, stock: Iterable[GPUUnit]) -> Iterator[GPUUnit]:
        """Yield the stock that is in our share; without other replicas, all of it is."""
        oldest = loop_time() - REMEMBERED_SECONDS
        self._met_at = {name: at for name, at in self._met_at.items() if at > oldest}
        if not self._met_at:
            yield from stock
            return
        our_seed = _seed(self._name)
        others = [_seed(name) for name in self._met_at]
        for each in stock:
            digest = crc32(each.metadata.uid.encode())
            ours = _weight(our_seed, digest)
            if all(_weight(seed, digest) < ours for seed in others):
                yield each


def _seed(name: str) -> int:
    return crc32(name.encode())


def _weight(seed: int, digest: int) -> tuple[int, int]:
    """Rank a replica for a stock unit, whose owner is the replica that ranks first.

    The product breaks the linearity of CRC. Without it one of three replicas would own one half.
    """
    return ((seed ^ digest) * MULTIPLIER) >> 32 & 0xFFFFFFFF, seed
