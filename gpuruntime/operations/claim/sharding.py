"""Which stock is ours to try first, where other replicas claim at the same time.

Replicas share nothing but the API server, so they hear of each other only where their claims
meet: the mark on the stock unit names the replica that won. For a while after that each of them
keeps to its own share of the stock, by the same hash, and meets the others no more. Nothing
depends on it but the number of conflicts: the guarded PATCH alone decides who has a stock unit.
"""

import asyncio
from random import Random
from typing import Final
from zlib import crc32

from gpuruntime.models.kinds import provenance
from gpuruntime.models.kinds.units import GPUUnit

# After so long without a meeting the other has stopped claiming, or is gone.
REMEMBERED_SECONDS: Final = 60.0


class StockShards:
    """Callers sent to us and to a peer under one operation do not count as a meeting."""

    def __init__(self, rng: Random) -> None:
        self._name = f"{rng.getrandbits(64):016x}"
        self._attempts = 0
        self._met_at: dict[str, float] = {}

    def new_attempt(self) -> str:
        """A token that no other attempt has had, and that tells whose it is."""
        self._attempts += 1
        return f"{self._name}.{self._attempts}"

    def meet(self, stock: GPUUnit) -> None:
        """The claim on it was made by another replica, for another operation."""
        name = provenance.attempt_of(stock).partition(".")[0]
        if name and name != self._name:
            self._met_at[name] = asyncio.get_running_loop().time()

    def leaves_to_us(self, stock: GPUUnit) -> bool:
        """Always, where nobody else claims."""
        if not self._met_at:
            return True
        oldest = asyncio.get_running_loop().time() - REMEMBERED_SECONDS
        self._met_at = {name: at for name, at in self._met_at.items() if at > oldest}
        uid = stock.metadata.uid
        ours = _weight(self._name, uid)
        return all(_weight(name, uid) < ours for name in self._met_at)


def _weight(name: str, uid: str) -> tuple[int, str]:
    return crc32(f"{name} {uid}".encode()), name
