"""Checks of configuration texts; all faults of a section are reported at once."""

import ipaddress
from collections.abc import Callable, Iterator, Mapping
from typing import Final, TypeAlias

from gpuruntime.models.kubernetes.names import is_label_key, is_label_value
from gpuruntime.models.kubernetes.quantities import EXBIBYTE, is_quantity, parse_quantity
from gpuruntime.strict.structure import FieldError, raise_all

# The field, whether it is at fault, and the message.
Fault: TypeAlias = tuple[str, bool, str]
_MAPPED_IPV4: Final = ipaddress.IPv6Network("::ffff:0:0/96")


def refuse(*faults: Fault) -> None:
    raise_all([FieldError(field, message) for field, is_there, message in faults if is_there])


def label_faults(field: str, given: Mapping[str, str]) -> Iterator[Fault]:
    for key, value in given.items():
        is_label = is_label_key(key) and is_label_value(value)
        yield field, not is_label, f"{key}: {value} is no label"


def is_amount(text: str) -> bool:
    return is_quantity(text) and parse_quantity(text).is_positive_below(EXBIBYTE)


def is_device(text: str) -> bool:
    """Check a device name. Kubernetes reserves kubernetes.io and names without a domain."""
    domain, slash, _ = text.rpartition("/")
    is_own = domain == "kubernetes.io" or domain.endswith(".kubernetes.io")
    return bool(slash) and is_label_key(f"requests.{text}") and not is_own


def is_ip(text: str) -> bool:
    return _parses(ipaddress.ip_address, text)


def is_cidr(text: str) -> bool:
    """Read a CIDR as Kubernetes does: the length in digits, and no IPv4 mapped into IPv6."""
    _, _, length = text.partition("/")
    if not (length.isascii() and length.isdigit() and _parses(ipaddress.ip_network, text)):
        return False
    network = ipaddress.ip_network(text)
    return "%" not in text and not (network.version == 6 and network.subnet_of(_MAPPED_IPV4))


def is_address(text: str) -> bool:
    """Return whether this is an address; the empty text stands for none and is allowed."""
    return not text or is_cidr(f"{text}/32") or is_cidr(f"{text}/128")


def _parses(parse: Callable[[str], object], text: str) -> bool:
    try:
        parse(text)
    except ValueError:
        return False
    return True
