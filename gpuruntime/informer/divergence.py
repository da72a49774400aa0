"""Now and then the store is compared with the server, by uid and version alone.

A difference may only mean that its event is under way. So what differs is looked at again after
a window has stayed open long enough to bring any event, and only what has not moved at all on
either side has diverged.
"""

import asyncio
from typing import Generic, TypeVar

import attrs
import structlog

from gpuruntime.informer.recovery import Watching
from gpuruntime.informer.reflector import Reflector
from gpuruntime.informer.source import Source
from gpuruntime.informer.store import Store, version_number, version_of
from gpuruntime.kube.errors import KubeError
from gpuruntime.models.metadata import Key, KubernetesObject, PartialObject

ObjectT = TypeVar("ObjectT", bound=KubernetesObject)

CHECK_SECONDS = 3_600.0
# Longer than a silent connection lives: an event that has not come by then does not come.
SETTLE_SECONDS = 90.0
CATCH_UP_SECONDS = 0.5
MOST_SETTLINGS = 5
EXAMPLES_LOGGED = 5

log = structlog.get_logger()


@attrs.frozen(kw_only=True, slots=True)
class Identity:
    uid: str
    version: int


@attrs.frozen(kw_only=True, slots=True)
class Snapshot:
    """What the server had at one version."""

    version: int
    objects: dict[Key, Identity]


@attrs.frozen(slots=True)
class Difference:
    """Empty texts stand for an object that this side does not have."""

    key: Key
    held_version: str
    server_uid: str


def differences(snapshot: Snapshot, store: Store[ObjectT]) -> frozenset[Difference]:
    """Where the store is behind. To be ahead of the snapshot is what events do to it."""
    behind = (
        Difference(key, held.metadata.resourceVersion if held else "", listed.uid)
        for key, listed in snapshot.objects.items()
        if (held := store.get(key)) is None or version_of(held) < listed.version
    )
    surplus = (
        Difference(key, held.metadata.resourceVersion, "")
        for key, held in store.items()
        if key not in snapshot.objects and version_of(held) <= snapshot.version
    )
    return frozenset({*behind, *surplus})


class DivergenceCheck(Generic[ObjectT]):
    """A difference is counted, logged, and healed by a new list."""

    def __init__(
        self, source: Source[ObjectT], store: Store[ObjectT], reflector: Reflector[ObjectT]
    ) -> None:
        self._source = source
        self._metadata = source.of_metadata()
        self._store = store
        self._reflector = reflector

    async def run(self) -> None:
        """About every hour; the jitter keeps the informers of a fleet apart."""
        while True:
            await asyncio.sleep(CHECK_SECONDS * self._source.rng.uniform(0.5, 1.5))
            try:
                await self._check()
            except KubeError as error:
                log.info("divergence not checked", resource=str(self._source), error=str(error))

    async def catch_up(self) -> None:
        """Ends once the store holds everything that the server had when this was called.

        A failed request is tried again: whoever waits here must not go on without it.
        """
        suspects: frozenset[Difference] | None = None
        while suspects is None or suspects:
            try:
                found = await self._differences()
                suspects = found if suspects is None else suspects & found
            except KubeError as error:
                log.warning("catching up is held up", resource=str(self._source), error=str(error))
            if suspects is None or suspects:
                await asyncio.sleep(CATCH_UP_SECONDS)

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
            self._reflector.doubt()

    async def _differences(self) -> frozenset[Difference]:
        return differences(await self._snapshot(), self._store)

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
        """Waits until one window has been open throughout; False when none stays open."""
        for _ in range(MOST_SETTLINGS):
            window = self._reflector.windows_opened
            await asyncio.sleep(SETTLE_SECONDS)
            is_open = isinstance(self._reflector.state, Watching)
            if is_open and self._reflector.windows_opened == window:
                return True
        return False


def _identity_of(item: PartialObject) -> Identity:
    return Identity(uid=item.metadata.uid, version=version_of(item))
