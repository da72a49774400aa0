"""The address of a storage's file server, from objects that belong to the storage alone.

It is the cluster IP of the storage's Service. No name is resolved, and nothing that a caller sends
has a part in it.
"""

import ipaddress
from collections.abc import Callable
from typing import TypeAlias

import attrs

from gpuruntime.api.errors import AccessorOffError, NotServingError
from gpuruntime.models.encoding import codec
from gpuruntime.models.kinds import provenance
from gpuruntime.models.kinds.reasons import ConditionType
from gpuruntime.models.kinds.storages import GPUStorage, accessor_name
from gpuruntime.models.kubernetes.conditions import condition_of
from gpuruntime.models.kubernetes.metadata import Key
from gpuruntime.models.kubernetes.network import Service
from gpuruntime.operations.lookup.caches import Store
from gpuruntime.operations.lookup.scopes import EVERYTHING, Scope
from gpuruntime.operations.storages import Storages

# Maps an address of the cluster to one that this process reaches, or None if nothing is there.
AddressMapping: TypeAlias = Callable[[str, int], tuple[str, int] | None]


def same_address(host: str, port: int) -> tuple[str, int]:
    """Return the address itself, for a process in the cluster's own network."""
    return host, port


@attrs.frozen(kw_only=True, slots=True)
class Port:
    port: int = 0


@attrs.frozen(kw_only=True, slots=True)
class ServiceAddress:
    """The part of a Service's spec that holds its address."""

    clusterIP: str = ""
    ports: tuple[Port, ...] = ()


@attrs.frozen(kw_only=True, slots=True)
class FileServer:
    storage: str
    host: str
    port: int

    @property
    def origin(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"


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
        key = Key(storage.metadata.namespace, accessor_name(storage.metadata.name))
        service = self._services.get(key)
        owner = service.metadata.controller_owner if service else None
        if service is None or owner is None or owner.uid != storage.metadata.uid:
            raise NotServingError(
                f"the accessor of storage {storage.metadata.name} has no Service yet"
            )
        address = codec.decode(service.spec, ServiceAddress)
        if not _is_ip(address.clusterIP) or not address.ports:
            raise NotServingError(
                f"the Service of storage {storage.metadata.name} has no address yet"
            )
        return address.clusterIP, address.ports[0].port


def _demand_ready(storage: GPUStorage) -> None:
    name = storage.metadata.name
    if provenance.is_terminating(storage):
        raise NotServingError(f"storage {name} is being deleted")
    ready = condition_of(storage.status.conditions, ConditionType.ACCESSOR_READY)
    if ready is None or not ready.is_true:
        words = f"{ready.reason}: {ready.message}" if ready else "the manager has not seen it yet"
        raise NotServingError(f"the accessor of storage {name} is not ready: {words}")


def _is_ip(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True
