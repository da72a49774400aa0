"""Tenancy: a caller sees its tenants' objects, and what it creates belongs to one of them."""

from typing import TypeVar

import attrs

from gpuruntime.api.auth.access import Principal, Role
from gpuruntime.api.errors import DeniedError
from gpuruntime.models.requests.secrets import CreateSecret
from gpuruntime.models.requests.storages import CreateStorage
from gpuruntime.models.requests.units import CreateUnit
from gpuruntime.operations.lookup.scopes import EVERYTHING, Scope
from gpuruntime.strict.structure import Problem, StrictError

RequestT = TypeVar("RequestT", CreateUnit, CreateStorage, CreateSecret)


def scope_of(principal: Principal) -> Scope:
    """Return the caller's scope; a tenant role without tenants, which no token file allows, sees
    none.
    """
    is_bound = principal.role is Role.TENANT or bool(principal.tenants)
    return Scope(principal.tenants) if is_bound else EVERYTHING


def owned(request: RequestT, principal: Principal) -> RequestT:
    """Return the request with one of the caller's tenants, or raise DeniedError or StrictError.

    The operation's hash includes that tenant, so it does not depend on the caller.
    """
    tenants = scope_of(principal).tenants
    if tenants is None or request.tenant in tenants:
        return request
    if request.tenant:
        raise DeniedError(
            f"{principal.name} may not create objects for tenant {request.tenant}: "
            f"its own is {_listed(tenants)}"
        )
    return attrs.evolve(request, tenant=_only_one(tenants))


def asked_tenant(asked: str, principal: Principal) -> str | None:
    """Return the one tenant that a request is about, "" for none, or None for a foreign tenant.

    Raise StrictError if the caller has several tenants and names none of them.
    """
    tenants = scope_of(principal).tenants
    if tenants is None or asked in tenants:
        return asked
    return None if asked else _only_one(tenants)


def asked_tenants(asked: str, principal: Principal) -> frozenset[str] | None:
    """Return the tenants whose objects a list shows, or None for those of all."""
    tenants = scope_of(principal).tenants
    if not asked:
        return tenants
    return frozenset({asked}) if tenants is None else tenants & {asked}


def _only_one(tenants: frozenset[str]) -> str:
    if len(tenants) != 1:
        message = f"is needed, as there are several: {_listed(tenants)}"
        raise StrictError((Problem(field="tenant", message=message),))
    (tenant,) = tenants
    return tenant


def _listed(tenants: frozenset[str]) -> str:
    return ", ".join(sorted(tenants))
