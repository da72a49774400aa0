"""What a caller's tenants make of its requests: what it sees, and whose what it makes is."""

from typing import TypeVar

import attrs

from gpuruntime.api.auth.access import Principal, Role
from gpuruntime.api.errors import DeniedError
from gpuruntime.operations.lookup.scopes import EVERYTHING, Scope
from gpuruntime.operations.requests.storages import CreateStorage
from gpuruntime.operations.requests.units import CreateUnit
from gpuruntime.strict.structure import Problem, StrictError

RequestT = TypeVar("RequestT", CreateUnit, CreateStorage)


def scope_of(principal: Principal) -> Scope:
    """A tenant without tenants, which no file of tokens can hold, would see nothing."""
    is_bound = principal.role is Role.TENANT or bool(principal.tenants)
    return Scope(principal.tenants) if is_bound else EVERYTHING


def owned(request: RequestT, principal: Principal) -> RequestT:
    """The request with a tenant of the caller's; its hash is made of that, whoever sends it."""
    tenants = scope_of(principal).tenants
    if tenants is None or request.tenant in tenants:
        return request
    if request.tenant:
        raise DeniedError(
            f"{principal.name} may not make anything for tenant {request.tenant}: "
            f"its own is {_listed(tenants)}"
        )
    if len(tenants) != 1:
        message = f"is needed, as there are several: {_listed(tenants)}"
        raise StrictError((Problem(field="tenant", message=message),))
    (tenant,) = tenants
    return attrs.evolve(request, tenant=tenant)


def asked_tenants(asked: str, principal: Principal) -> frozenset[str] | None:
    """Of a list that may be asked for one tenant; None: whatever there is."""
    tenants = scope_of(principal).tenants
    if not asked:
        return tenants
    return frozenset({asked}) if tenants is None else tenants & {asked}


def _listed(tenants: frozenset[str]) -> str:
    return ", ".join(sorted(tenants))
