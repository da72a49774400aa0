"""Creation of a pool's stock units: by name, concurrently, and never twice for one ordinal."""

import asyncio
from collections.abc import Iterable
from typing import Final

import structlog

from gpuruntime.concurrency.clock import loop_time
from gpuruntime.kube.client import Client
from gpuruntime.kube.errors import (
    AlreadyExistsError,
    KubeError,
    MalformedAnswerError,
    OutcomeUnknownError,
)
from gpuruntime.models.encoding import codec
from gpuruntime.models.encoding.json import JsonObject
from gpuruntime.models.kinds import labels, provenance
from gpuruntime.models.kinds.claim_timing import REQUEST_LIFE_SECONDS
from gpuruntime.models.kinds.pools import StockPool
from gpuruntime.models.kinds.units import GPU_UNITS, GPUUnit, GPUUnitSpec
from gpuruntime.models.kubernetes.metadata import Key
from gpuruntime.operations.lookup.caches import Cache
from gpuruntime.reconcilers.children.keeper import REFUSALS
from gpuruntime.reconcilers.options import PodDefaults

log = structlog.get_logger()

# After these errors, the unit may still be created.
UNSETTLED: Final = (OutcomeUnknownError, MalformedAnswerError)


class Seeder:
    def __init__(self, client: Client, stock: Cache[GPUUnit], defaults: PodDefaults) -> None:
        self._client = client
        self._stock = stock
        self._defaults = defaults
        # Loop time until which a create of unknown outcome may still land, by pool.
        self._unsettled: dict[Key, float] = {}

    async def make(self, pool: StockPool, ordinals: Iterable[int]) -> str:
        """Create the units; return why some were refused, or nothing.

        Raise KubeError if an immediate retry may help.
        """
        async with asyncio.TaskGroup() as tasks:
            makings = [
                tasks.create_task(self._make_one(pool, ordinal), name=f"create {ordinal}")
                for ordinal in ordinals
            ]
        outcomes = [making.result() for making in makings]
        for outcome in outcomes:
            if isinstance(outcome, KubeError):
                raise outcome
        if "" in outcomes:
            log.info("stock made", count=outcomes.count(""))
        return next((text for text in outcomes if isinstance(text, str) and text), "")

    def unsettled_seconds(self, pool: StockPool) -> float:
        left = self._unsettled.get(pool.metadata.key, 0.0) - loop_time()
        return max(0.0, left)

    def forget(self, key: Key) -> None:
        self._unsettled.pop(key, None)

    async def _make_one(self, pool: StockPool, ordinal: int) -> str | KubeError:
        """Return a failure as a value: raised, it would cancel the concurrent requests."""
        key = Key(pool.metadata.namespace, f"{pool.metadata.name}-{ordinal}")
        try:
            unit = await self._create_or_get(pool, key)
        except REFUSALS as error:
            return str(error)
        except UNSETTLED as error:
            self._unsettled[pool.metadata.key] = loop_time() + REQUEST_LIFE_SECONDS
            return error
        except KubeError as error:
            return error
        if not provenance.is_of_pool(unit, pool):
            return f"stock {key} is not of this pool: its ordinal waits until that unit is gone"
        self._stock.write_through(unit)
        return ""

    async def _create_or_get(self, pool: StockPool, key: Key) -> GPUUnit:
        try:
            body = stock_unit(pool, key, self._defaults)
            return await self._client.create(GPU_UNITS, body, namespace=key.namespace)
        except AlreadyExistsError:
            return await self._client.get(GPU_UNITS, key)


def stock_unit(pool: StockPool, key: Key, defaults: PodDefaults) -> JsonObject:
    """Return the unit with its whole envelope, so that a later default does not change it."""
    spec = GPUUnitSpec(
        specName=pool.spec.specName,
        image=pool.spec.image,
        cpu=pool.spec.cpu or defaults.cpu,
        memory=pool.spec.memory or defaults.memory,
        gpu=pool.spec.gpu,
        gpuProduct=pool.spec.gpuProduct,
        template=pool.spec.template,
    )
    return {
        "apiVersion": GPU_UNITS.api_version,
        "kind": GPU_UNITS.kind,
        "metadata": {
            "name": key.name,
            "namespace": key.namespace,
            "labels": {
                labels.APP_NAME: labels.UNIT_APP,
                labels.MANAGED_BY: labels.MANAGER,
                labels.UNIT: key.name,
                labels.POOL: pool.metadata.name,
                labels.SPEC: pool.spec.specName,
            },
            "annotations": {labels.POOL_UID: pool.metadata.uid},
        },
        "spec": codec.to_json(spec),
    }
