"""Rights of the roles, decided without a request."""

import pytest

from gpuruntime.api.auth.access import (
    AUDIT,
    FUNCTIONS,
    OF_TENANTS,
    POOLS,
    STORAGES,
    UNITS,
    Access,
    Principal,
    Role,
    Verb,
    refusal_of,
)

OPERATOR = Principal(name="root", role=Role.OPERATOR)
VIEWER = Principal(name="screen", role=Role.VIEWER)
BOUND_VIEWER = Principal(name="team-screen", role=Role.VIEWER, tenants=frozenset({"a"}))
TENANT = Principal(name="team", role=Role.TENANT, tenants=frozenset({"a"}))
EVERYTHING = (*sorted(OF_TENANTS), POOLS, AUDIT)


def may(principal: Principal, verb: Verb, resource: str) -> bool:
    return not refusal_of(principal, Access(verb=verb, resource=resource))


@pytest.mark.parametrize("resource", EVERYTHING)
@pytest.mark.parametrize("verb", list(Verb))
def test_an_operator_may_do_everything(verb: Verb, resource: str) -> None:
    assert may(OPERATOR, verb, resource)


@pytest.mark.parametrize("resource", EVERYTHING)
def test_a_viewer_reads_everything_and_changes_nothing(resource: str) -> None:
    allowed = {verb for verb in Verb if may(VIEWER, verb, resource)}
    assert allowed == {Verb.GET, Verb.LIST}


@pytest.mark.parametrize("principal", [TENANT, BOUND_VIEWER], ids=["tenant", "bound viewer"])
@pytest.mark.parametrize("resource", [POOLS, AUDIT, "inventory", "something-new"])
def test_a_bound_caller_may_not_touch_the_operators_resources(
    principal: Principal, resource: str
) -> None:
    assert not any(may(principal, verb, resource) for verb in Verb)


@pytest.mark.parametrize("resource", [UNITS, STORAGES, FUNCTIONS])
def test_a_tenant_may_use_the_resources_of_tenants(resource: str) -> None:
    assert all(may(TENANT, verb, resource) for verb in Verb)
    assert {verb for verb in Verb if may(BOUND_VIEWER, verb, resource)} == {Verb.GET, Verb.LIST}


def test_a_refusal_names_the_caller_the_access_and_the_reason() -> None:
    refusal = refusal_of(VIEWER, Access(verb=Verb.GET, resource=UNITS, subresource="log"))
    assert refusal == ""
    refusal = refusal_of(VIEWER, Access(verb=Verb.DELETE, resource=UNITS))
    assert refusal == "screen may not delete gpuunits: its role is viewer, which reads only"
