"""Pure decisions about rights, from a caller and its route's needs, before a body is read."""

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
    """The namespace that a route is about; ALL is for what has none."""

    INSTANCE = "instance"
    STOCK = "stock"
    ALL = "all"


class Role(StrEnum):
    """An operator may do everything, a viewer read everything; a tenant is bound to its own
    objects.
    """

    OPERATOR = "operator"
    VIEWER = "viewer"
    TENANT = "tenant"


@attrs.frozen(kw_only=True, slots=True)
class Access:
    """The right that a route needs, in the words of Kubernetes' own authorisation.

    Some resources are virtual: Kubernetes does not know them, and rules may still grant them.
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
    """The access of a route that serves every caller."""


@attrs.frozen(slots=True)
class Known:
    """The access of a route that serves every authenticated caller, whatever its rights."""


@attrs.frozen(kw_only=True, slots=True)
class Principal:
    """A known caller; without tenants it is not bound to any.

    `uid`, `groups` and `extra` are what the cluster says of a caller that it knows. A wake token
    of the gateway counts for the unit with `unit_uid` alone.
    """

    name: str
    role: Role
    tenants: frozenset[str] = frozenset()
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()
    unit_uid: str = ""


OPEN: Final = Open()
KNOWN: Final = Known()
ANYBODY: Final = Principal(name="anybody", role=Role.OPERATOR)
UNITS: Final = "gpuunits"
POOLS: Final = "stockpools"
STORAGES: Final = "gpustorages"
SECRETS: Final = "secrets"
INVENTORY: Final = "inventory"
AUDIT: Final = "audit"
FUNCTIONS: Final = "functions"
INVOCATIONS: Final = "invocations"
DEAD_LETTERS: Final = "deadletters"
# Resources of tenants; all others are the operator's.
OF_TENANTS: Final = frozenset({UNITS, STORAGES, SECRETS, FUNCTIONS, INVOCATIONS, DEAD_LETTERS})
_READS: Final = frozenset({Verb.GET, Verb.LIST})


def unit_access(verb: Verb, subresource: str = "") -> Access:
    return Access(verb=verb, resource=UNITS, subresource=subresource)


def pool_access(verb: Verb) -> Access:
    return Access(verb=verb, resource=POOLS, place=Place.STOCK)


def storage_access(verb: Verb, subresource: str = "") -> Access:
    return Access(verb=verb, resource=STORAGES, subresource=subresource)


def refusal_of(principal: Principal, access: Access) -> str:
    """Return why the caller's role does not allow the access, or "" if it does."""
    if principal.role is Role.VIEWER and access.verb not in _READS:
        return f"{principal.name} may not {access}: its role is {principal.role}, which reads only"
    is_bound = principal.role is Role.TENANT or bool(principal.tenants)
    if is_bound and access.resource not in OF_TENANTS:
        return f"{principal.name} may not {access}: only operators may, and it is bound to tenants"
    return ""
