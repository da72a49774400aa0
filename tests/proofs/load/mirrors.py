"""Number and bytes of the objects that the product mirrors, read from the API server."""

import re
from typing import Any

from gpuruntime.models.kinds.pools import STOCK_POOLS
from gpuruntime.models.kinds.units import GPU_UNITS
from gpuruntime.models.kubernetes.cluster import CONFIG_MAPS, NODES
from gpuruntime.models.kubernetes.network import NETWORK_POLICIES, SERVICES
from gpuruntime.models.kubernetes.pods import PODS
from gpuruntime.models.kubernetes.resources import Resource
from gpuruntime.models.kubernetes.workloads import DEPLOYMENTS
from tests.proofs.bench.connections import Address
from tests.proofs.bench.connections import connections as opened
from tests.proofs.real_cluster.product import Installation

PAGE = 500
# The continue token stands in the metadata at the start of a list.
HEAD_BYTES = 2_000
CONTINUE = re.compile(rb'"continue":"([^"]*)"')


class Mirrors:
    def __init__(self, plane: Address, made: Installation) -> None:
        self._plane = plane
        self._instance = made.instance
        stock, instance = made.stock, made.instance
        self._common: list[tuple[Resource[Any], str]] = [
            (GPU_UNITS, stock),
            (GPU_UNITS, instance),
            (STOCK_POOLS, stock),
        ]
        self._of_manager = [
            *self._common,
            *((kind, place) for kind in (DEPLOYMENTS, PODS) for place in (stock, instance)),
            (SERVICES, instance),
            (NETWORK_POLICIES, instance),
            (CONFIG_MAPS, made.system),
        ]

    async def bytes_of_manager(self) -> int:
        """Return the bytes on the wire of a first list of all that the manager mirrors."""
        return sum([await self._bytes(*each) for each in self._of_manager])

    async def bytes_of_api(self) -> int:
        return sum([await self._bytes(*each) for each in (*self._common, (NODES, ""))])

    async def active_pods(self) -> int:
        async with opened(self._plane, 1) as (connection,):
            answer = await connection.send("GET", f"{PODS.path(namespace=self._instance)}?limit=1")
        page = answer.document
        return len(page["items"]) + int(page["metadata"].get("remainingItemCount", 0))

    async def _bytes(self, kind: Resource[Any], namespace: str) -> int:
        total, token = 0, ""
        async with opened(self._plane, 1) as (connection,):
            while True:
                path = f"{kind.path(namespace=namespace)}?limit={PAGE}&continue={token}"
                body = (await connection.send("GET", path)).body
                total += len(body)
                found = CONTINUE.search(body[:HEAD_BYTES])
                if found is None:
                    return total
                token = found[1].decode()
