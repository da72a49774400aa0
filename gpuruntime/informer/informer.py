"""One kind of objects, mirrored from the API server: a store to read and changes to hear of."""

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
from gpuruntime.kube.watch import EVERYTHING, Selection
from gpuruntime.meter import Meter, NullMeter
from gpuruntime.models.kubernetes.metadata import KubernetesObject
from gpuruntime.models.kubernetes.resources import Resource

ObjectT = TypeVar("ObjectT", bound=KubernetesObject)


class Informer(Generic[ObjectT]):
    """Handlers are plain functions, called in one step with the store's update.

    Only a list is taken as a whole first and announced bit by bit after that. Every change is
    announced at least once; several changes of one object may be told as one.
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
    ) -> None:
        """Checked means: compared with the server about every hour, at the price of a list.

        Two informers of one process and kind have mirrors of different names, for its metrics.
        """
        source = Source(
            client=client,
            resource=resource,
            selection=selection,
            rng=rng,
            meter=meter,
            mirror=mirror or resource.plural,
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
        """Set once the first list was announced; what handlers hear before is the backlog."""
        return self._reflector.synced

    @property
    def state(self) -> State:
        return self._reflector.state

    @property
    def error(self) -> KubeError | None:
        """What failed last, until news came again; the informer keeps trying."""
        return self._reflector.error

    @property
    def failing_seconds(self) -> float:
        """For how long the error stands, through whatever others; 0 without one."""
        return self._reflector.failing_seconds

    def add_handler(self, handler: Handler[ObjectT]) -> None:
        """To be called before `run`: what was announced earlier is not told again."""
        self._handlers.append(handler)

    def write_through(self, written: ObjectT) -> bool:
        """Takes the answer to a write of this process, if its version is newer, and announces it.

        The next reconcile then sees what was written. False when it is old news: the event came
        first, or the object is already gone again.
        """
        return self._writer.write_through(written)

    async def catch_up(self) -> None:
        """After the first sync: ends once all that the server has at this moment is known here."""
        await self._comparison.catch_up()

    async def run(self) -> None:
        """For ever: whatever the server does is retried, and only a fault of ours ends it."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._reflector.run(), name=f"reflect {self.resource}")
            if self._is_checked:
                tasks.create_task(self._comparison.run(), name=f"check {self.resource}")
