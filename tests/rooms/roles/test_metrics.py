"""The roles' /metrics compared with the catalogue."""

import re
import tempfile
import urllib.request
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import pytest
from prometheus_client import Metric as Family
from prometheus_client.parser import text_string_to_metric_families

from gpuruntime.telemetry.catalogue import CATALOGUE
from gpuruntime.telemetry.metric import Kind, Label, Metric, RoleName
from gpuruntime.telemetry.metrics import OVERFLOW
from tests.proofs.real_cluster.product import Caller, Process
from tests.rooms.roles.programs import programs

STOCK = {"operationID": "stock", "specName": "a1", "replicas": 2}
UNIT = {"operationID": "unit", "name": "unit", "specName": "a1", "image": "python:3.12"}
ADDRESS = re.compile(r'"address": "(http://[^"]+)", "event": "operations listening"')
Families = dict[str, Family]


def scraped(dev: Process) -> Iterator[tuple[RoleName, Families]]:
    for address in ADDRESS.findall(dev.log.read_text()):
        with urllib.request.urlopen(f"{address}/metrics", timeout=10) as answer:
            text = answer.read().decode()
        families = {family.name: family for family in text_string_to_metric_families(text)}
        [built] = families["gpuruntime_build_info"].samples
        yield RoleName(built.labels["role"]), families


@pytest.fixture(scope="module")
def by_role() -> dict[RoleName, Families]:
    """Scrape the roles after a unit was claimed and became ready."""
    with tempfile.TemporaryDirectory(prefix="metrics-") as folder, programs(Path(folder)) as made:
        return scraped_by(made.dev())


def scraped_by(dev: Process) -> dict[RoleName, Families]:
    caller = Caller(dev.address)
    assert caller.post("/operator/stock-units", STOCK).status == 202
    caller.until("/operator/jobs/stock", lambda job: job["ready"] == 2)
    assert caller.post("/gpu-units", {**UNIT, "specName": "a2"}).status == 409
    assert caller.post("/gpu-units", UNIT).status == 201
    caller.until("/gpu-units/unit", lambda unit: unit["phase"] == "Ready")
    return dict(scraped(dev))


def faults_of(role: RoleName, family: Family, metric: Metric | None) -> Iterator[str]:
    if metric is None or role not in metric.roles:
        yield f"{role}: {family.name} is not in the catalogue"
        return
    if family.documentation != metric.help or family.type != metric.kind:
        yield f"{role}: {family.name} has another kind or help"
    known = {label.name: label for label in metric.labels}
    for sample in family.samples:
        labels = {name: value for name, value in sample.labels.items() if name != "le"}
        if labels.keys() != known.keys():
            yield f"{role}: {sample} has other labels"
        for name, value in labels.items():
            if not is_expected(known[name], role, value):
                yield f"{role}: {sample} has an unknown {name}"


def is_expected(label: Label, role: RoleName, value: str) -> bool:
    values = label.values_in(role)
    return value != OVERFLOW and (not values or value in values)


def test_roles_report_exactly_what_the_catalogue_describes(
    by_role: dict[RoleName, Families],
) -> None:
    assert by_role.keys() == set(RoleName) - {RoleName.WORKER}
    by_family = {
        metric.full_name.removesuffix("_total")
        if metric.kind is Kind.COUNTER
        else metric.full_name: metric
        for metric in CATALOGUE
    }
    faults = [
        fault
        for role, families in by_role.items()
        for name, family in families.items()
        if not name.startswith(("process_", "python_"))
        for fault in faults_of(role, family, by_family.get(name))
    ]
    assert not faults


def value(families: Families, name: str, **labels: str) -> float:
    [found] = (
        sample.value
        for sample in families[f"gpuruntime_{name}"].samples
        if sample.labels == labels
    )
    return found


def test_the_leading_manager_reports_stock_and_units(by_role: dict[RoleName, Families]) -> None:
    families = by_role[RoleName.MANAGER]
    assert value(families, "stock_units", spec="a1", state="available") == 1
    assert value(families, "units", spec="a1", phase="Ready") == 1
    assert value(families, "storages", phase="Failed") == 0


def test_each_role_reports_its_version_and_that_it_is_ready(
    by_role: dict[RoleName, Families],
) -> None:
    for role, families in by_role.items():
        assert value(families, "build_info", role=role, version=version("gpuruntime")) == 1
        assert value(families, "ready", role=role) == 1
    for role in (RoleName.MANAGER, RoleName.ACTIVATOR):
        assert value(by_role[role], "leading", role=role) == 1
    for role in (RoleName.API, RoleName.ACTIVATOR, RoleName.RESULTS):
        assert value(by_role[role], "bus_connected") == 1
    assert value(by_role[RoleName.API], "kubernetes_connected") == 1


def test_requests_for_units_are_counted_by_outcome(by_role: dict[RoleName, Families]) -> None:
    families = by_role[RoleName.API]
    assert value(families, "claims", outcome="insufficient_capacity") == 1
    assert value(families, "claims", outcome="timeout") == 0
