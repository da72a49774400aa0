"""The invariants as the API reports them."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from gpuruntime.api.routes.audit import MOST_LISTED
from gpuruntime.audit.auditor import LAG_SECONDS
from gpuruntime.audit.rules import RULES
from gpuruntime.models.kinds import labels
from gpuruntime.models.kinds.units import GPU_UNITS
from tests.rooms.api.service import Service, service
from tests.rooms.operations.cluster import STOCK, Cluster

pytestmark = pytest.mark.looptime

AUDIT = "/api/v1/operator/audit"


@pytest.fixture
async def cluster() -> Cluster:
    return Cluster()


@pytest.fixture
async def api(cluster: Cluster) -> AsyncIterator[Service]:
    async with service(cluster) as served:
        yield served


def add_sound_stock(cluster: Cluster, count: int) -> None:
    """Add stock units with a status as a manager writes it, including the phase."""
    for number in range(1, count + 1):
        cluster.add_stock_unit(f"p-{number}")
        path = GPU_UNITS.path(namespace=STOCK, name=f"p-{number}", subresource="status")
        cluster.call("PATCH", path, {"status": {"phase": "Ready", "readyReplicas": 1}})


def mark(cluster: Cluster, name: str) -> None:
    path = GPU_UNITS.path(namespace=STOCK, name=name)
    cluster.call("PATCH", path, {"metadata": {"annotations": {labels.OPERATION_ID: "one"}}})


async def test_a_sound_cluster_has_rules_and_no_breach(cluster: Cluster, api: Service) -> None:
    add_sound_stock(cluster, 2)
    await asyncio.sleep(1)
    audit = (await api.call("GET", AUDIT)).data
    assert [each["name"] for each in audit["rules"]] == [rule.name for rule in RULES]
    assert all(each["description"] and not each["breaches"] for each in audit["rules"])
    assert (audit["breaches"], audit["suspicions"], audit["objects"]) == ([], 0, 2)
    assert audit["checkedAt"].startswith("2025-01-01T00:00:01.")


async def test_a_rule_on_what_the_api_does_not_read_is_not_checked(api: Service) -> None:
    rules = (await api.call("GET", AUDIT)).data["rules"]
    unchecked = {each["name"] for each in rules if not each["checked"]}
    checked = {each["name"] for each in rules} - unchecked
    assert {"child-owner", "pod-owner", "deletion-ends", "storage-held"} <= unchecked
    assert {"claim-whole", "stock-once", "operation-once"} <= checked


async def test_a_lasting_breach_is_shown_with_its_objects_and_remedy(
    cluster: Cluster, api: Service
) -> None:
    add_sound_stock(cluster, 2)
    mark(cluster, "p-2")
    await asyncio.sleep(1)
    first = (await api.call("GET", AUDIT)).data
    assert (first["breaches"], first["suspicions"]) == ([], 1)
    await asyncio.sleep(LAG_SECONDS)
    audit = (await api.call("GET", AUDIT)).data
    (breach,) = audit["breaches"]
    assert breach["rule"] == "claim-whole"
    (named,) = breach["objects"]
    assert (named["kind"], named["namespace"], named["name"]) == ("GPUUnit", STOCK, "p-2")
    assert breach["message"]
    assert breach["remedy"]
    counts = {each["name"]: each["breaches"] for each in audit["rules"] if each["breaches"]}
    assert counts == {"claim-whole": 1}


async def test_all_breaches_are_counted_and_only_the_first_are_listed(
    cluster: Cluster, api: Service
) -> None:
    count = MOST_LISTED + 5
    add_sound_stock(cluster, count)
    for number in range(1, count + 1):
        mark(cluster, f"p-{number}")
    await asyncio.sleep(1)
    await api.call("GET", AUDIT)
    await asyncio.sleep(LAG_SECONDS)
    audit = (await api.call("GET", AUDIT)).data
    assert len(audit["breaches"]) == MOST_LISTED
    assert sum(each["breaches"] for each in audit["rules"]) == count


async def test_the_audit_never_asks_the_cluster(api: Service) -> None:
    api.replica.transport.sent.clear()
    api.replica.transport.cut()
    assert (await api.call("GET", AUDIT)).status == 200
    assert api.replica.transport.sent == []
