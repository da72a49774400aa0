"""Tombstones of finished operations: written for observed deletions, deleted after they expire."""

import asyncio
from collections import deque
from collections.abc import Callable
from datetime import datetime
from typing import Final

import attrs
import structlog

from gpuruntime.concurrency.clock import loop_time
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
from gpuruntime.workqueue.queue import WorkQueue

log = structlog.get_logger()

SWEEP_SECONDS: Final = 60.0
# Number of tombstones checked between two passes of the loop.
SLICE: Final = 500
# Longer than a leader takes to write a tombstone, even if it is replaced meanwhile.
REMEMBER_SECONDS: Final = 600.0
# They take about 10 MB.
MOST_REMEMBERED: Final = 10_000


@attrs.frozen(kw_only=True, slots=True)
class _Seen:
    """A deletion that a standby saw, with its loop time."""

    key: Key
    remains: KubernetesObject
    at: float


class TombstoneWriter:
    """TombstoneWriter writes a tombstone for each active unit that was deleted.

    The API writes one before it deletes; this is for deletions by other clients. A unit that lost
    its operation to another one gets none, because the operation goes on in that unit.
    """

    def __init__(
        self, tombstones: Tombstones, queue: WorkQueue[Key], mirror: Cache[ConfigMap]
    ) -> None:
        self._tombstones = tombstones
        self._queue = queue
        self._mirror = mirror
        # A list, because a name may be used and freed again before its first tombstone is written.
        self._gone: dict[Key, list[KubernetesObject]] = {}
        # Deletions seen as a standby, the oldest first.
        self._seen: deque[_Seen] = deque(maxlen=MOST_REMEMBERED)

    def notice(self, key: Key, old: GPUUnit | None, new: GPUUnit | None) -> None:
        """Handle a change of a unit, on the leader."""
        if old is not None and _is_gone(old, new) and _ends_its_operation(old):
            self._add(key, old)

    def remember(self, key: Key, old: GPUUnit | None, new: GPUUnit | None) -> None:
        """Handle a change of a unit on a standby: the leader may end before it has written."""
        now = loop_time()
        while self._seen and self._seen[0].at + REMEMBER_SECONDS < now:
            self._seen.popleft()
        if old is not None and _is_gone(old, new) and _ends_its_operation(old):
            remains = _remains_of(old)
            if not self._has_tombstone(remains):
                self._seen.append(_Seen(key=key, remains=remains, at=now))

    def begin(self) -> None:
        """Enqueue the remembered deletions, because this process is now the leader."""
        since = loop_time() - REMEMBER_SECONDS
        for seen in self._seen:
            if seen.at >= since and not self._has_tombstone(seen.remains):
                self._add(seen.key, seen.remains)
        self._seen.clear()

    async def reconcile(self, key: Key) -> Result:
        while waiting := self._gone.get(key):
            await ensure_tombstone(self._tombstones, GPU_UNITS.kind, waiting[0])
            waiting.pop(0)
        self._gone.pop(key, None)
        return DONE

    def _add(self, key: Key, remains: KubernetesObject) -> None:
        self._gone.setdefault(key, []).append(remains)
        self._queue.add(key)

    def _has_tombstone(self, remains: KubernetesObject) -> bool:
        """Return whether the cache has the tombstone; the write itself checks live."""
        key = self._tombstones.key_of(provenance.operation_of(remains))
        held = self._mirror.store.get(key)
        return held is not None and tombstone_of(held).covers(remains)


async def ensure_tombstone(tombstones: Tombstones, kind: str, value: KubernetesObject) -> None:
    """Write the object's tombstone, unless its deletion through the API has done so."""
    operation = provenance.operation_of(value)
    known = await tombstones.find(operation) if operation else None
    if known is None or not known.covers(value):
        await tombstones.write(kind, value)


class TombstoneSweeper:
    """TombstoneSweeper deletes expired tombstones, guarded by their uid and version."""

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
            # It is gone, or was written again with a new expiry.
            return


def _is_gone(old: GPUUnit, new: GPUUnit | None) -> bool:
    return new is None or new.metadata.uid != old.metadata.uid


def _remains_of(unit: GPUUnit) -> PartialObject:
    """Return only what a tombstone is written from."""
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
    return bool(provenance.operation_of(unit)) and not provenance.has_lost(unit)
