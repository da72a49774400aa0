"""Mirror of one kind of objects: a store to read, and handlers that receive its changes."""

import asyncio
from collections.abc import Mapping
from random import Random
from typing import Generic, TypeVar

from gpuruntime.informer.consistency_check import ConsistencyCheck
from gpuruntime.informer.recovery import State
from gpuruntime.informer.reflector import Reflector
from gpuruntime.informer.source import Source
from gpuruntime.informer.store import Index, Store
from gpuruntime.informer.writer import Handler, Writer
from gpuruntime.kube.client import Client
from gpuruntime.kube.errors import KubeError
from gpuruntime.kube.watch import EVERYTHING, WINDOW_SECONDS, Selection
from gpuruntime.meter import Meter, NullMeter
from gpuruntime.models.kubernetes.metadata import KubernetesObject
from gpuruntime.models.kubernetes.resources import Resource

ObjectT = TypeVar("ObjectT", bound=KubernetesObject)


class Informer(Generic[ObjectT]):
    """Informer keeps a store of one kind up to date, and calls its handlers with every change.

    A handler is a plain function, called in one step with the store's update. Only a list replaces
    the whole store first and is announced in batches after that. Every change is announced at
    least once; several changes of one object may be announced as one.
    """

    def __init__(
        self,
        client: Client,
        resource: Resource[ObjectT],
        *,
        rng: Random,
        selection: Selection = EVERYTHING,
        mirror: str = "",
        indexes: Mapping[str, Index[ObjectT]] | None = None,
        meter: Meter = NullMeter(),
        is_checked: bool = False,
        window_seconds: tuple[int, int] = WINDOW_SECONDS,
    ) -> None:
        """Create the informer; with `is_checked` it lists about every hour to compare the store.

        Two informers of one process and kind need different `mirror` names for their metrics.
        """
        source = Source(
            client=client,
            resource=resource,
            selection=selection,
            rng=rng,
            meter=meter,
            mirror=mirror or resource.plural,
            window_seconds=window_seconds,
        )
        self._handlers: list[Handler[ObjectT]] = []
        self._writer = Writer(resource.type, indexes or {}, self._handlers)
        self._reflector = Reflector(source, self._writer)
        self._comparison = ConsistencyCheck(source, self.store, self._reflector)
        self._is_checked = is_checked
        self.resource = resource

    @property
    def store(self) -> Store[ObjectT]:
        return self._writer.store

    @property
    def synced(self) -> asyncio.Event:
        """Return an event, set once the first list is announced; until then comes the backlog."""
        return self._reflector.synced

    @property
    def state(self) -> State:
        return self._reflector.state

    @property
    def error(self) -> KubeError | None:
        """Return the last failure, or None once the server has answered again."""
        return self._reflector.error

    @property
    def failing_seconds(self) -> float:
        """Return the seconds since the first failure after the last success, or 0."""
        return self._reflector.failing_seconds

    @property
    def silent_seconds(self) -> float:
        """Return the seconds since the server last answered the watch, infinite before that."""
        return self._reflector.silent_seconds

    def add_handler(self, handler: Handler[ObjectT]) -> None:
        """Add a handler before `run`; it does not receive changes that were announced earlier."""
        self._handlers.append(handler)

    def write_through(self, written: ObjectT) -> bool:
        """Store the answer to a write of this process, if its version is newer, and announce it.

        The next reconcile then sees what was written. Return False if the event came first, or if
        the object has been deleted meanwhile.
        """
        return self._writer.write_through(written)

    async def catch_up(self) -> None:
        """Return once the store has all that the server has now; call it after the first sync."""
        await self._comparison.catch_up()

    async def run(self) -> None:
        """Follow the server until cancelled; every failure of the server is retried."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._reflector.run(), name=f"reflect {self.resource}")
            if self._is_checked:
                tasks.create_task(self._comparison.run(), name=f"check {self.resource}")
