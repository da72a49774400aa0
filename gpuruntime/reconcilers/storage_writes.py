"""The manager's writes to a storage itself: guarded by what was seen, and known here at once."""

import attrs

from gpuruntime.inventory.stores import Cache
from gpuruntime.kube.client import Client
from gpuruntime.models.json import JsonObject
from gpuruntime.models.storages import GPU_STORAGES, GPUStorage


@attrs.frozen(kw_only=True, slots=True)
class StorageWrites:
    client: Client
    storages: Cache[GPUStorage]

    async def patch(
        self, storage: GPUStorage, patch: JsonObject, *, subresource: str = ""
    ) -> GPUStorage:
        """The storage as it is then; raises ConflictError where it has changed since."""
        written = await self.client.patch(
            GPU_STORAGES,
            storage.metadata.key,
            patch,
            resource_version=storage.metadata.resourceVersion,
            subresource=subresource,
        )
        self.storages.write_through(written)
        return written
