"""An upgrade of the manager while units run, and a downgrade after it."""

from collections.abc import Iterator

import attrs
import pytest

from tests.eventually import eventually_blocking
from tests.proofs.product.maintenance.fleet import Fleet
from tests.proofs.product.maintenance.newer_manager import LABEL

pytestmark = pytest.mark.cluster

NEWER = "tests.proofs.product.maintenance.newer_manager"


@attrs.frozen
class Upgrade:
    """The Pods before an upgrade, and the size of the audit log at that time."""

    pods: dict[str, set[str]]
    size: int


@pytest.fixture(scope="module")
def upgrade(fleet: Fleet) -> Iterator[Upgrade]:
    pods = fleet.pods()
    yield Upgrade(pods, fleet.change_manager(NEWER))
    if fleet.program == NEWER:
        fleet.change_manager()


def change(fleet: Fleet, name: str) -> None:
    """Change the unit's image; return when the new Pod runs and the old Pod is gone."""
    key = fleet.key(name)
    old = fleet.pods()[key]
    assert fleet.caller.put(f"/gpu-units/{name}", {"image": "python:3.13"}).status == 200
    eventually_blocking(
        lambda: fleet.pods().get(key, set()), lambda new: len(new) == 1 and not new & old
    )
    fleet.caller.until(f"/gpu-units/{name}", lambda unit: unit["phase"] == "Ready")
    fleet.wait_until_quiet()


def test_a_newer_version_writes_nothing_and_restarts_nothing(
    fleet: Fleet, upgrade: Upgrade
) -> None:
    assert fleet.writes_since(upgrade.size) == []
    assert fleet.pods() == upgrade.pods


@pytest.mark.usefixtures("upgrade")
def test_a_changed_unit_alone_gets_the_newer_template(fleet: Fleet) -> None:
    size, before = fleet.made.plane.audit_size(), fleet.pods()
    change(fleet, "fleet-1")
    assert fleet.labels_of_pod("fleet-1")[LABEL] == "yes"
    after = fleet.pods()
    assert [unit for unit in after if after[unit] != before[unit]] == [fleet.key("fleet-1")]
    # The scheduler's message for a Pod without room changes when another Pod moves, and the status
    # of its unit repeats that message.
    written = {each for each in fleet.writes_since(size) if each.subresource != "status"}
    assert {each.name.partition(".")[0] for each in written} == {"fleet-1", "unit-fleet-1"}


@pytest.mark.usefixtures("upgrade")
def test_the_older_version_returns_and_restarts_nothing(fleet: Fleet) -> None:
    change(fleet, "fleet-2")
    before = fleet.pods()
    size = fleet.change_manager()
    assert fleet.writes_since(size) == []
    assert fleet.pods() == before
    assert fleet.labels_of_pod("fleet-2")[LABEL] == "yes"
