"""The memory of operations that ended: written for deletions seen, swept when it expires."""

import asyncio
from collections import deque
from collections.abc import Callable
from datetime import datetime
from typing import Final

import attrs
import structlog

from gpuruntime.controller.controller import DONE, Result
from gpuruntime.kube.client import Client
from gpuruntime.kube.errors import ConflictError, KubeError, NotFoundError
from gpuruntime.models.kinds import labels, provenance
from gpuruntime.models.kinds.tombstones import tombstone_of
from gpuruntime.models.kinds.units import GPU_UNITS, GPUUnit
from gpuruntime.models.kubernetes.cluster import CONFIG_MAPS, ConfigMap
from gpuruntime.models.kubernetes.metadata import Key, KubernetesObject, ObjectMeta, PartialObject
from gpuruntime.operations.lookup.caches import Cache
from gpuruntime.operations.tombstones import Tombstones
from gpuruntime.reconcilers.unit.start_plan import has_lost
from gpuruntime.workqueue.queue import WorkQueue

log = structlog.get_logger()

SWEEP_SECONDS: Final = 60.0
# So many are looked at between two turns of the loop.
SLICE: Final = 500
# Longer than a leader takes to write, also where it is replaced in between.
REMEMBER_SECONDS: Final = 600.0
# Some 10 MB.
MOST_REMEMBERED: Final = 10_000


@attrs.frozen(kw_only=True, slots=True)
class _Seen:
    """A deletion that a standby saw, at which moment of its loop."""

    key: Key
    remains: KubernetesObject
    at: float


class TombstoneWriter:
    """Sees to the tombstone of each active unit that is seen to be gone.

    The API writes one before it deletes; this is for deletions by anybody else. The loser of an
    operation's conflict gets none: the operation lives on in the winner.
    """

    def __init__(
        self, tombstones: Tombstones, queue: WorkQueue[Key], mirror: Cache[ConfigMap]
    ) -> None:
        self._tombstones = tombstones
        self._queue = queue
        self._mirror = mirror
        # A name may be used and freed again before its first unit is buried.
        self._gone: dict[Key, list[KubernetesObject]] = {}
        # On a standby, the oldest first.
        self._seen: deque[_Seen] = deque(maxlen=MOST_REMEMBERED)

    def notice(self, key: Key, old: GPUUnit | None, new: GPUUnit | None) -> None:
        """A handler of the units' informer, on the leader."""
        if old is not None and _is_gone(old, new) and _ends_its_operation(old):
            self._add(key, old)

    def remember(self, key: Key, old: GPUUnit | None, new: GPUUnit | None) -> None:
        """The same on a standby: the leader may end before it has written."""
        now = asyncio.get_running_loop().time()
        while self._seen and self._seen[0].at + REMEMBER_SECONDS < now:
            self._seen.popleft()
        if old is not None and _is_gone(old, new) and _ends_its_operation(old):
            remains = _remains_of(old)
            if not self._is_buried(remains):
                self._seen.append(_Seen(key=key, remains=remains, at=now))

    def begin(self) -> None:
        """From here on this process leads."""
        since = asyncio.get_running_loop().time() - REMEMBER_SECONDS
        for seen in self._seen:
            if seen.at >= since and not self._is_buried(seen.remains):
                self._add(seen.key, seen.remains)
        self._seen.clear()

    async def reconcile(self, key: Key) -> Result:
        while waiting := self._gone.get(key):
            await bury(self._tombstones, GPU_UNITS.kind, waiting[0])
            waiting.pop(0)
        self._gone.pop(key, None)
        return DONE

    def _add(self, key: Key, remains: KubernetesObject) -> None:
        self._gone.setdefault(key, []).append(remains)
        self._queue.add(key)

    def _is_buried(self, remains: KubernetesObject) -> bool:
        """As far as the mirror shows; whoever writes looks live."""
        key = self._tombstones.key_of(provenance.operation_of(remains))
        held = self._mirror.store.get(key)
        return held is not None and tombstone_of(held).buries(remains)


async def bury(tombstones: Tombstones, kind: str, value: KubernetesObject) -> None:
    """Writes the object's tombstone unless its deletion through the API has done so."""
    operation = provenance.operation_of(value)
    known = await tombstones.find(operation) if operation else None
    if known is None or not known.buries(value):
        await tombstones.write(kind, value)


class TombstoneSweeper:
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


def _is_gone(old: GPUUnit, new: GPUUnit | None) -> bool:
    return new is None or new.metadata.uid != old.metadata.uid


def _remains_of(unit: GPUUnit) -> PartialObject:
    """What a tombstone is made from, whatever else the unit carried."""
    metadata = unit.metadata
    kept = (labels.OPERATION_ID, labels.REQUEST_HASH)
    marks = {name: metadata.annotations.get(name, "") for name in kept}
    return PartialObject(
        metadata=ObjectMeta(
            name=metadata.name,
            namespace=metadata.namespace,
            uid=metadata.uid,
            annotations=marks,
        )
    )


def _ends_its_operation(unit: GPUUnit) -> bool:
    return bool(provenance.operation_of(unit)) and not has_lost(unit)
