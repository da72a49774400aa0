"""The address of a storage's file server, from objects that belong to the storage alone.

It is the cluster IP of the storage's Service. No name is resolved, and nothing that a caller sends
has a part in it.
"""

import attrs

from gpuruntime.api.errors import AccessorOffError, NotServingError
from gpuruntime.models.kinds import provenance
from gpuruntime.models.kinds.reasons import ConditionType
from gpuruntime.models.kinds.storages import GPUStorage, accessor_name
from gpuruntime.models.kubernetes.conditions import condition_of
from gpuruntime.models.kubernetes.metadata import Key
from gpuruntime.models.kubernetes.network import Service
from gpuruntime.operations.lookup.caches import Store
from gpuruntime.operations.lookup.scopes import EVERYTHING, Scope
from gpuruntime.operations.storages import Storages
from gpuruntime.relay.service_addresses import (
    AddressMapping,
    address_owned_by,
    origin_of,
    same_address,
)


@attrs.frozen(kw_only=True, slots=True)
class FileServer:
    storage: str
    host: str
    port: int

    @property
    def origin(self) -> str:
        return origin_of(self.host, self.port)


class FileServers:
    def __init__(
        self,
        storages: Storages,
        services: Store[Service],
        map_address: AddressMapping = same_address,
    ) -> None:
        self._storages = storages
        self._services = services
        self._map_address = map_address

    async def storage(self, name: str, scope: Scope = EVERYTHING) -> GPUStorage:
        """Return a storage with an accessor; raise StorageNotFoundError or AccessorOffError."""
        storage = await self._storages.get(name, scope)
        if not storage.spec.accessor.enabled:
            raise AccessorOffError(
                f"storage {name} has no accessor: update it with accessor.enabled true"
            )
        return storage

    def of(self, storage: GPUStorage) -> FileServer:
        """Return the file server; raise NotServingError while it is not ready."""
        name = storage.metadata.name
        _demand_ready(storage)
        place = self._map_address(*self._address_of(storage))
        if place is None:
            raise NotServingError(f"the accessor of storage {name} is simulated: it has no files")
        return FileServer(storage=name, host=place[0], port=place[1])

    def _address_of(self, storage: GPUStorage) -> tuple[str, int]:
        """Return the Service's address, if this storage owns it and not another of its name."""
        name = storage.metadata.name
        key = Key(storage.metadata.namespace, accessor_name(name))
        address = address_owned_by(storage, self._services.get(key))
        if address is None:
            raise NotServingError(f"the accessor of storage {name} has no Service yet")
        if not address.is_usable:
            raise NotServingError(f"the Service of storage {name} has no address yet")
        return address.clusterIP, address.ports[0].port


def _demand_ready(storage: GPUStorage) -> None:
    name = storage.metadata.name
    if provenance.is_terminating(storage):
        raise NotServingError(f"storage {name} is being deleted")
    ready = condition_of(storage.status.conditions, ConditionType.ACCESSOR_READY)
    if ready is None or not ready.is_true:
        words = f"{ready.reason}: {ready.message}" if ready else "the manager has not seen it yet"
        raise NotServingError(f"the accessor of storage {name} is not ready: {words}")
