"""Who may do what: decided from a caller and what a route declares, before a body is read."""

from enum import StrEnum
from typing import Final

import attrs


class Verb(StrEnum):
    GET = "get"
    LIST = "list"
    CREATE = "create"
    UPDATE = "update"
    DELETE = "delete"


class Place(StrEnum):
    """Which of our namespaces a route speaks of; ALL is what belongs to none."""

    INSTANCE = "instance"
    STOCK = "stock"
    ALL = "all"


class Role(StrEnum):
    """An operator may do everything, a viewer read it; a tenant works with what is its own."""

    OPERATOR = "operator"
    VIEWER = "viewer"
    TENANT = "tenant"


@attrs.frozen(kw_only=True, slots=True)
class Access:
    """What a route needs, in the words of Kubernetes' own authorisation.

    Resources that Kubernetes does not know are virtual: rights are given to them all the same.
    """

    verb: Verb
    resource: str
    subresource: str = ""
    place: Place = Place.INSTANCE

    def __str__(self) -> str:
        name = f"{self.resource}/{self.subresource}" if self.subresource else self.resource
        return f"{self.verb} {name}"


@attrs.frozen(slots=True)
class Open:
    """Served to whoever asks."""


@attrs.frozen(kw_only=True, slots=True)
class Principal:
    """A caller that is known; without tenants it is bound to none.

    What follows those is what the cluster says of somebody whom it knows.
    """

    name: str
    role: Role
    tenants: frozenset[str] = frozenset()
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()


OPEN: Final = Open()
ANYBODY: Final = Principal(name="anybody", role=Role.OPERATOR)
UNITS: Final = "gpuunits"
POOLS: Final = "stockpools"
STORAGES: Final = "gpustorages"
INVENTORY: Final = "inventory"
AUDIT: Final = "audit"
FUNCTIONS: Final = "functions"
INVOCATIONS: Final = "invocations"
DEAD_LETTERS: Final = "deadletters"
# What tenants have things of; everything else is the operator's.
OF_TENANTS: Final = frozenset({UNITS, STORAGES, FUNCTIONS, INVOCATIONS, DEAD_LETTERS})
_READS: Final = frozenset({Verb.GET, Verb.LIST})


def unit_access(verb: Verb, subresource: str = "") -> Access:
    return Access(verb=verb, resource=UNITS, subresource=subresource)


def pool_access(verb: Verb) -> Access:
    return Access(verb=verb, resource=POOLS, place=Place.STOCK)


def storage_access(verb: Verb, subresource: str = "") -> Access:
    return Access(verb=verb, resource=STORAGES, subresource=subresource)


def refusal_of(principal: Principal, access: Access) -> str:
    """Why the caller's role does not allow it; empty where it does."""
    if principal.role is Role.VIEWER and access.verb not in _READS:
        return f"{principal.name} may not {access}: its role is {principal.role}, which reads only"
    is_bound = principal.role is Role.TENANT or bool(principal.tenants)
    if is_bound and access.resource not in OF_TENANTS:
        return f"{principal.name} may not {access}: that is the operator's, and it is a tenant"
    return ""
