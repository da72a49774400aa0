"""Consistent reads that serve all callers waiting for the same answer."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from gpuruntime.concurrency.single_flight import SharedCalls
from gpuruntime.kube.client import Client
from gpuruntime.kube.errors import KubeError
from gpuruntime.models.kubernetes.metadata import KubernetesObject
from gpuruntime.models.kubernetes.resources import Resource

ResultT = TypeVar("ResultT")
ObjectT = TypeVar("ObjectT", bound=KubernetesObject)


class SharedReads(Generic[ResultT]):
    """Gives each caller a read that began after its call, and shares it with other callers."""

    def __init__(self, read: Callable[[str], Awaitable[ResultT]]) -> None:
        self._read = read
        self._calls = SharedCalls[ResultT](KubeError)

    async def get(self, subject: str) -> ResultT:
        """Return the result of the shared read, or raise its KubeError."""
        is_fresh = False
        while reading := self._calls.in_flight(subject):
            await asyncio.wait([reading])
            if is_fresh and not reading.cancelled():
                return reading.result()
            is_fresh = True
        return await self._calls.lead(subject, lambda: self._read(subject))


async def list_all(
    client: Client, resource: Resource[ObjectT], *, namespace: str, label_selector: str = ""
) -> list[ObjectT]:
    """Return the objects of all pages of one consistent list."""
    found: list[ObjectT] = []
    token = ""
    while True:
        page = await client.list_page(
            resource, namespace=namespace, label_selector=label_selector, continue_token=token
        )
        found += page.items
        token = page.continue_token
        if not token:
            return found
