"""The memory of operations that ended: written for deletions seen, swept when it expires."""

import asyncio
from collections.abc import Callable
from datetime import datetime
from typing import Final

import structlog

from gpuruntime.controller.result import DONE, Result
from gpuruntime.inventory.stores import Cache
from gpuruntime.inventory.tombstones import Tombstones
from gpuruntime.kube.client import Client
from gpuruntime.kube.errors import ConflictError, KubeError, NotFoundError
from gpuruntime.models import provenance
from gpuruntime.models.cluster import CONFIG_MAPS, ConfigMap
from gpuruntime.models.metadata import Key, KubernetesObject
from gpuruntime.models.tombstones import tombstone_of
from gpuruntime.models.units import GPU_UNITS, GPUUnit
from gpuruntime.reconcilers.start_plan import has_lost
from gpuruntime.workqueue.queue import WorkQueue

log = structlog.get_logger()

SWEEP_SECONDS: Final = 60.0
# So many are looked at between two turns of the loop.
SLICE: Final = 500


class Undertaker:
    """Sees to the tombstone of each active unit that is seen to be gone.

    The API writes one before it deletes; this is for deletions by anybody else. The loser of an
    operation's conflict gets none: the operation lives on in the winner.
    """

    def __init__(self, tombstones: Tombstones, queue: WorkQueue[Key]) -> None:
        self._tombstones = tombstones
        self._queue = queue
        # A name may be used and freed again before its first unit is buried.
        self._gone: dict[Key, list[GPUUnit]] = {}

    def notice(self, key: Key, old: GPUUnit | None, new: GPUUnit | None) -> None:
        """A handler of the units' informer."""
        is_gone = old is not None and (new is None or new.metadata.uid != old.metadata.uid)
        if old is not None and is_gone and _ends_its_operation(old):
            self._gone.setdefault(key, []).append(old)
            self._queue.add(key)

    async def reconcile(self, key: Key) -> Result:
        while waiting := self._gone.get(key):
            await bury(self._tombstones, GPU_UNITS.kind, waiting[0])
            waiting.pop(0)
        self._gone.pop(key, None)
        return DONE


async def bury(tombstones: Tombstones, kind: str, value: KubernetesObject) -> None:
    """Writes the object's tombstone unless its deletion through the API has done so."""
    operation = provenance.operation_of(value)
    known = await tombstones.find(operation) if operation else None
    if known is None or all(each.uid != value.metadata.uid for each in known.buried):
        await tombstones.write(kind, value)


class Sweeper:
    """Removes tombstones past their time, guarded by their uid."""

    def __init__(
        self, client: Client, cache: Cache[ConfigMap], now: Callable[[], datetime]
    ) -> None:
        self._client = client
        self._cache = cache
        self._now = now

    async def run(self) -> None:
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            try:
                await self.sweep()
            except KubeError as error:
                log.warning("sweep cut short, the next one goes on", error=str(error))

    async def sweep(self) -> None:
        for number, held in enumerate(tuple(self._cache.store.values())):
            if number % SLICE == 0:
                await asyncio.sleep(0)
            if tombstone_of(held).expires_at < self._now():
                await self._remove(held)

    async def _remove(self, held: ConfigMap) -> None:
        try:
            await self._client.delete(
                CONFIG_MAPS,
                held.metadata.key,
                uid=held.metadata.uid,
                resource_version=held.metadata.resourceVersion,
            )
        except (NotFoundError, ConflictError):
            # Gone, or written anew: its time counts from then.
            return


def _ends_its_operation(unit: GPUUnit) -> bool:
    return bool(provenance.operation_of(unit)) and not has_lost(unit)
