"""The requests that a claim costs the API server, and that rest costs none, by the audit log."""

import time
from collections import Counter
from collections.abc import Iterator

import attrs
import pytest

from tests.proofs.product.audit_log import (
    Request,
    requests_since,
    wait_until_quiet,
    writes_since,
)
from tests.proofs.product.claims.concurrent_callers import (
    order,
    seed,
    wait_until_running,
    wait_until_sound,
)
from tests.proofs.product.maintenance.fleet import Fleet
from tests.proofs.real_cluster.controlplane import ControlPlane
from tests.proofs.real_cluster.product import Caller, Installation, Process, installation

pytestmark = pytest.mark.cluster

SPEC = "claims.1"
CLAIMS = 20
CLAIM_WRITES = 3
CHILD_WRITES = 3
STATUS_WRITES = 2
MOST_WRITES = 8
MOST_EVENTS = 1
MANAGER = "gpuruntime-manager"
MOST_RECONCILES = 6
STEADY_SECONDS = 60.0


@attrs.frozen
class Claims:
    """Claims made one after another: the writes of each by purpose, and all reconciles.

    Writes and reconciles of pools are left out, because they follow the clock and not the claims.
    """

    writes: dict[str, Counter[str]]
    reconciles: float
    # Reads of the manager by verb and resource, without watches and leases.
    reads: Counter[tuple[str, str]]


@pytest.fixture(scope="module")
def claims(cluster: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Claims]:
    with installation(cluster, tmp_path_factory.mktemp("claims"), "claims") as made:
        yield counted(made)


def counted(made: Installation) -> Claims:
    manager, api = made.manager(), made.api()
    api.wait_until_ready()
    caller, plane = Caller(api.address), made.plane
    seed(caller, SPEC, CLAIMS)
    wait_until_quiet(plane, made.system)
    size, before = plane.audit_size(), reconciles_of(manager)
    units = {}
    for number in range(CLAIMS):
        unit = caller.post("/gpu-units", order(f"claim-{number}", SPEC)).data
        units[unit["sourceStock"]["name"]] = unit["name"]
    wait_until_running(caller, SPEC, CLAIMS)
    wait_until_quiet(plane, made.system)
    writes: dict[str, Counter[str]] = {name: Counter() for name in units.values()}
    for each in writes_since(plane, size, made.system):
        if each.resource != "stockpools":
            writes[unit_of(each, units)][purpose_of(each)] += 1
    reads = Counter(
        (each.verb, each.resource)
        for each in requests_since(plane, size, made.system)
        if each.user == MANAGER and each.verb in ("get", "list") and each.resource != "leases"
    )
    return Claims(writes, reconciles_of(manager) - before, reads)


def reconciles_of(manager: Process) -> float:
    return sum(
        manager.metric("gpuruntime_reconciles_total", controller=each)
        for each in ("unit", "stock", "deletion")
    )


def unit_of(request: Request, units: dict[str, str]) -> str:
    """Return the unit by the name of the written object: unit, child, stock or Event."""
    name = request.name.partition(".")[0].removeprefix("unit-")
    return units.get(name, name)


def purpose_of(request: Request) -> str:
    if request.resource == "events":
        return "event"
    if request.subresource == "status":
        return "status"
    return "claim" if request.resource == "gpuunits" else "child"


def test_a_claim_costs_no_more_writes_than_its_budget(claims: Claims) -> None:
    for name, spent in claims.writes.items():
        assert spent["claim"] == CLAIM_WRITES, name
        assert spent["child"] <= CHILD_WRITES, name
        assert spent["status"] <= STATUS_WRITES, name
        assert spent["event"] <= MOST_EVENTS, name
        assert spent.total() - spent["event"] <= MOST_WRITES, name


def test_a_claim_costs_the_manager_two_reads_by_name_and_no_list(claims: Claims) -> None:
    """They are the stock unit and the tombstone: neither grows with the cluster."""
    assert set(claims.reads) == {("get", "configmaps"), ("get", "gpuunits")}
    assert max(claims.reads.values()) <= CLAIMS


def test_a_claim_costs_no_more_reconciles_than_its_budget(claims: Claims) -> None:
    assert claims.reconciles / CLAIMS <= MOST_RECONCILES


def test_units_at_rest_in_every_state_break_no_invariant(fleet: Fleet) -> None:
    wait_until_sound(fleet.caller)


def test_a_new_leader_reads_everything_and_writes_nothing(fleet: Fleet) -> None:
    size = fleet.change_manager()
    assert fleet.writes_since(size) == []


def test_a_second_reconcile_writes_nothing(fleet: Fleet) -> None:
    before = fleet.reconciles()
    for namespace in (fleet.made.instance, fleet.made.stock):
        fleet.made.plane.kubectl(
            "annotate", "gpuunits,stockpools", "--all", "seen=yes", "-n", namespace
        )
    size = fleet.made.plane.audit_size()
    fleet.wait_until_reconciled(before)
    assert fleet.writes_since(size) == []


def test_a_minute_of_rest_has_neither_writes_nor_lists(fleet: Fleet) -> None:
    size = fleet.made.plane.audit_size()
    time.sleep(STEADY_SECONDS)
    asked = list(fleet.requests_since(size))
    assert [each for each in asked if each.is_write or each.verb == "list"] == []
    assert [each for each in asked if each.resource == "leases"]
