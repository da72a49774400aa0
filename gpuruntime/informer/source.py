"""The collection that an informer follows, and the client that reads it."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from random import Random
from typing import Generic, TypeVar

import attrs

from gpuruntime.kube.answers import Page
from gpuruntime.kube.client import Client
from gpuruntime.kube.watch import WINDOW_SECONDS, Bookmark, Change, Selection, open_window
from gpuruntime.meter import Meter
from gpuruntime.models.kubernetes.metadata import KubernetesObject, PartialObject
from gpuruntime.models.kubernetes.resources import Resource

ObjectT = TypeVar("ObjectT", bound=KubernetesObject)

# A page of large Pods decodes in about 10 ms, during which the loop is blocked.
PAGE_LIMIT = 500


@attrs.frozen(kw_only=True, slots=True)
class Source(Generic[ObjectT]):
    """Source reads one collection. `mirror` names it in metrics, if a kind has several."""

    client: Client
    resource: Resource[ObjectT]
    selection: Selection
    rng: Random
    meter: Meter
    mirror: str
    window_seconds: tuple[int, int] = WINDOW_SECONDS

    async def page(self, continue_token: str) -> Page[ObjectT]:
        return await self.client.list_page(
            self.resource,
            namespace=self.selection.namespace,
            label_selector=self.selection.label_selector,
            field_selector=self.selection.field_selector,
            limit=PAGE_LIMIT,
            continue_token=continue_token,
        )

    def window(
        self, version: int
    ) -> AbstractAsyncContextManager[AsyncIterator[Change[ObjectT] | Bookmark]]:
        return open_window(
            self.client.transport,
            self.resource,
            str(version),
            rng=self.rng,
            selection=self.selection,
            window_seconds=self.window_seconds,
        )

    def of_metadata(self) -> "Source[PartialObject]":
        """Return a source of the same objects that requests only their metadata."""
        resource = Resource(
            group=self.resource.group,
            version=self.resource.version,
            kind=self.resource.kind,
            plural=self.resource.plural,
            type=PartialObject,
            is_namespaced=self.resource.is_namespaced,
        )
        return Source(
            client=self.client,
            resource=resource,
            selection=self.selection,
            rng=self.rng,
            meter=self.meter,
            mirror=self.mirror,
        )

    def count(self, name: str, amount: float = 1, **labels: str) -> None:
        self.meter.count(name, amount, mirror=self.mirror, **labels)

    def gauge(self, name: str, value: float) -> None:
        self.meter.gauge(name, value, mirror=self.mirror)

    def __str__(self) -> str:
        return str(self.resource)
