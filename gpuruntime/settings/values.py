"""Types of configuration values; `load` knows how each of them is read."""

import ipaddress
from typing import NewType

import attrs

from gpuruntime.models.kubernetes.quantities import parse_quantity

Label = NewType("Label", str)
Subdomain = NewType("Subdomain", str)
ResourceName = NewType("ResourceName", str)
Amount = NewType("Amount", str)


@attrs.frozen(slots=True)
class Address:
    """The address of a listener; an empty host means every interface."""

    host: str
    port: int

    @property
    def is_loopback(self) -> bool:
        return self.host == "localhost" or (
            bool(self.host) and ipaddress.ip_address(self.host).is_loopback
        )

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def bytes_of(amount: Amount) -> int:
    return parse_quantity(amount).rounded_up
