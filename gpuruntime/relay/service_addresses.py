"""The address of a server in a Pod, from the Service that its object owns.

It is the Service's cluster IP. No name is resolved, and nothing that a caller sends is part of it.
"""

import ipaddress
from collections.abc import Callable
from typing import TypeAlias

import attrs

from gpuruntime.models.encoding import codec
from gpuruntime.models.kubernetes.metadata import KubernetesObject
from gpuruntime.models.kubernetes.network import Service

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

    @property
    def is_usable(self) -> bool:
        return _is_ip(self.clusterIP) and bool(self.ports)


def address_owned_by(owner: KubernetesObject, service: Service | None) -> ServiceAddress | None:
    """Return the Service's address, or None unless this object owns it, not another of its name.

    It may not be usable yet.
    """
    controller = service.metadata.controller_owner if service else None
    if service is None or controller is None or controller.uid != owner.metadata.uid:
        return None
    return codec.decode(service.spec, ServiceAddress)


def origin_of(host: str, port: int) -> str:
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _is_ip(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True
