"""The manager's writes to a storage itself: guarded by its version, and cached at once."""

from contextlib import suppress

import attrs

from gpuruntime.kube.client import Client
from gpuruntime.kube.errors import NotFoundError
from gpuruntime.models.encoding.json import JsonObject
from gpuruntime.models.kinds.storages import GPU_STORAGES, GPUStorage
from gpuruntime.operations.lookup.caches import Cache


@attrs.frozen(kw_only=True, slots=True)
class StorageWrites:
    client: Client
    storages: Cache[GPUStorage]

    async def patch(
        self, storage: GPUStorage, patch: JsonObject, *, subresource: str = ""
    ) -> GPUStorage:
        """Patch the storage and return it; raise ConflictError if it has changed since."""
        written = await self.client.patch(
            GPU_STORAGES,
            storage.metadata.key,
            patch,
            resource_version=storage.metadata.resourceVersion,
            subresource=subresource,
        )
        self.storages.write_through(written)
        return written

    async def remove(self, storage: GPUStorage) -> None:
        """Delete this storage by its uid, and none that has taken its name."""
        with suppress(NotFoundError):
            await self.client.delete(GPU_STORAGES, storage.metadata.key, uid=storage.metadata.uid)
