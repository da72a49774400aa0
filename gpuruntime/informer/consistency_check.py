"""Comparison of the store with the server, by uid and version alone.

A difference may only mean that its event is still on its way. So each difference is checked again
after one watch window has been open long enough to bring any event. Only an object that has
changed on neither side has diverged.
"""

import asyncio
from typing import Generic, TypeVar

import attrs
import structlog

from gpuruntime.concurrency.batches import batches
from gpuruntime.informer.recovery import Empty, Health, ListFailed, Watching
from gpuruntime.informer.reflector import Reflector
from gpuruntime.informer.source import Source
from gpuruntime.informer.store import Store, version_number, version_of
from gpuruntime.kube.errors import KubeError
from gpuruntime.models.kubernetes.metadata import Key, KubernetesObject, PartialObject

ObjectT = TypeVar("ObjectT", bound=KubernetesObject)

CHECK_SECONDS = 3_600.0
# Longer than a silent connection lives: an event that has not arrived by then never will.
SETTLE_SECONDS = 90.0
MOST_SETTLINGS = 5
EXAMPLES_LOGGED = 5
KEYS_WITHOUT_PAUSE = 2_000

log = structlog.get_logger()


@attrs.frozen(kw_only=True, slots=True)
class Identity:
    uid: str
    version: int


@attrs.frozen(kw_only=True, slots=True)
class Snapshot:
    """The objects that the server had at one version."""

    version: int
    objects: dict[Key, Identity]


@attrs.frozen(slots=True)
class Difference:
    """A key on which the sides differ; an empty string means that the side lacks the object."""

    key: Key
    held_version: str
    server_uid: str


async def differences(snapshot: Snapshot, store: Store[ObjectT]) -> frozenset[Difference]:
    found = []
    for keys in ([*snapshot.objects], [*store.keys()]):
        async for batch in batches(keys, KEYS_WITHOUT_PAUSE):
            found += [difference(snapshot, key, store.get(key)) for key in batch]
    return frozenset(each for each in found if each is not None)


def difference(snapshot: Snapshot, key: Key, held: KubernetesObject | None) -> Difference | None:
    """Return the difference if the store is behind the snapshot; events may put it ahead."""
    listed = snapshot.objects.get(key)
    if held is None:
        return Difference(key, "", listed.uid) if listed else None
    version = version_of(held)
    if listed and version < listed.version:
        return Difference(key, held.metadata.resourceVersion, listed.uid)
    if not listed and version <= snapshot.version:
        return Difference(key, held.metadata.resourceVersion, "")
    return None


class ConsistencyCheck(Generic[ObjectT]):
    """ConsistencyCheck counts and logs diverged objects, and has the reflector list again."""

    def __init__(
        self, source: Source[ObjectT], store: Store[ObjectT], reflector: Reflector[ObjectT]
    ) -> None:
        self._source = source
        self._metadata = source.of_metadata()
        self._store = store
        self._reflector = reflector

    async def run(self) -> None:
        """Check about every hour; the jitter keeps the informers of many replicas apart."""
        while True:
            await asyncio.sleep(CHECK_SECONDS * self._source.rng.uniform(0.5, 1.5))
            try:
                await self._check()
            except KubeError as error:
                log.info("divergence not checked", resource=str(self._source), error=str(error))

    async def catch_up(self) -> None:
        """Return once the store holds everything that the server had at the time of the call.

        Failed requests are retried, because a caller must not go on with a store that is behind.
        """
        snapshot = await self._snapshot_at_last()
        missing = [found.key for found in await differences(snapshot, self._store)]
        while not self._has_passed(snapshot.version):
            missing = [key for key in missing if difference(snapshot, key, self._store.get(key))]
            if not missing:
                return
            self._reflector.moved.clear()
            await self._reflector.moved.wait()

    async def _snapshot_at_last(self) -> Snapshot:
        health = Health()
        while True:
            try:
                return await self._snapshot()
            except KubeError as error:
                failed = ListFailed(error=error)
                health = health.after(failed)
                log.warning("catching up is held up", resource=str(self._source), error=str(error))
                await asyncio.sleep(health.delay_seconds(failed, self._source.rng))

    def _has_passed(self, version: int) -> bool:
        """Return whether all events up to the version have come.

        Events are ordered, so an object that is still missing then has been deleted again.
        """
        state = self._reflector.state
        return not isinstance(state, Empty) and state.version >= version

    async def _check(self) -> None:
        suspects = await self._differences()
        if not suspects or not await self._settled():
            return
        diverged = suspects & await self._differences()
        if diverged:
            self._source.count("informer_divergence_total", len(diverged))
            log.error(
                "store diverged from the server",
                resource=str(self._source),
                objects=len(diverged),
                examples=sorted(str(found.key) for found in diverged)[:EXAMPLES_LOGGED],
            )
            self._reflector.request_relist()

    async def _differences(self) -> frozenset[Difference]:
        return await differences(await self._snapshot(), self._store)

    async def _snapshot(self) -> Snapshot:
        objects: dict[Key, Identity] = {}
        continue_token = ""
        while True:
            page = await self._metadata.page(continue_token)
            objects.update((item.metadata.key, _identity_of(item)) for item in page.items)
            continue_token = page.continue_token
            if not continue_token:
                version = version_number(page.resource_version, f"list {self._metadata}")
                return Snapshot(version=version, objects=objects)
            await asyncio.sleep(0)

    async def _settled(self) -> bool:
        """Wait until one window has stayed open for a whole wait; return False if none has."""
        for _ in range(MOST_SETTLINGS):
            window = self._reflector.windows_opened
            await asyncio.sleep(SETTLE_SECONDS)
            is_open = isinstance(self._reflector.state, Watching)
            if is_open and self._reflector.windows_opened == window:
                return True
        return False


def _identity_of(item: PartialObject) -> Identity:
    return Identity(uid=item.metadata.uid, version=version_of(item))
