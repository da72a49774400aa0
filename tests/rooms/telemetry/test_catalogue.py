"""The catalogue of metrics is complete, true to the code, and equal to the operators' page."""

import re
from collections import Counter
from collections.abc import Iterable

import pytest

from gpuruntime.audit.rules import RULES
from gpuruntime.models.kinds.invocations import Mode, State
from gpuruntime.models.kinds.phases import PoolPhase, StoragePhase, UnitPhase
from gpuruntime.operations.errors import OperationsError
from gpuruntime.operations.lookup.counts import StockState
from gpuruntime.reconcilers.unit.status import STAGES, TOTAL
from gpuruntime.serverless.errors import ServerlessError
from gpuruntime.telemetry import catalogue, label_values
from gpuruntime.telemetry.catalogue import CATALOGUE
from gpuruntime.telemetry.metric import Kind, Metric, RoleName
from gpuruntime.telemetry.metrics import Registry
from gpuruntime.worker.delivery_lease import Loss
from tests.rooms.telemetry.counting import countings
from tests.rooms.telemetry.metrics_page import PAGE, renewed

BY_NAME = {metric.name: metric for metric in CATALOGUE}


def values_of(name: str, label: str) -> set[str]:
    return {value for each in BY_NAME[name].labels if each.name == label for value in each.known}


def codes_of(root: type[OperationsError] | type[ServerlessError]) -> set[str]:
    return {kind.code for kind in root.__subclasses__() if kind.__module__ == root.__module__}


def test_every_count_in_the_code_is_in_the_catalogue_with_its_kind_and_labels() -> None:
    strange = []
    for found in countings():
        metric = BY_NAME.get(found.name)
        labels = {label.name for label in metric.labels} if metric else set()
        fits = found.labels == labels if found.is_whole else found.labels <= labels
        if metric is None or metric.kind is not found.kind or not fits:
            strange.append(f"{found.where}: {found.kind} {found.name} {sorted(found.labels)}")
    assert not strange


@pytest.mark.parametrize("role", [RoleName.MANAGER, RoleName.ACTIVATOR])
def test_an_elected_role_reports_its_events_from_the_start(role: RoleName) -> None:
    assert b"gpuruntime_events_sent_total 0.0" in b"".join(Registry(role).families())


def test_every_metric_of_the_catalogue_is_counted_somewhere() -> None:
    assert BY_NAME.keys() == {found.name for found in countings()}


def test_a_name_is_unique_and_follows_prometheus_conventions() -> None:
    assert [
        name for name, times in Counter(each.name for each in CATALOGUE).items() if times > 1
    ] == []
    for metric in CATALOGUE:
        assert re.fullmatch(r"[a-z][a-z_]*", metric.name)
        assert metric.name.endswith("_total") is (metric.kind is Kind.COUNTER), metric.name
        assert metric.name.endswith("_seconds") or metric.kind is not Kind.HISTOGRAM, metric.name


@pytest.mark.parametrize("metric", CATALOGUE, ids=lambda metric: metric.name)
def test_a_metric_describes_itself_its_roles_and_the_bounds_of_its_labels(metric: Metric) -> None:
    assert metric.roles
    assert metric.help[0].isupper() or metric.help[0].isdigit()
    assert metric.help.endswith(".")
    assert "|" not in metric.help
    assert all(label.known or label.bound for label in metric.labels)
    assert list(metric.buckets) == sorted(metric.buckets)
    assert not metric.buckets or metric.kind is Kind.HISTOGRAM


def equal(name: str, label: str, real: Iterable[str]) -> None:
    assert values_of(name, label) == set(real)


def test_known_values_of_labels_are_those_of_the_code() -> None:
    ends = {state for state in State if state.is_terminal}
    equal("audit_breaches", "rule", (rule.name for rule in RULES))
    assert set(label_values.REFUSALS) == codes_of(OperationsError)
    assert set(catalogue.REFUSED) == codes_of(ServerlessError)
    assert set(catalogue.ENDS) == ends
    equal("serverless_invocations_total", "mode", Mode)
    equal("unit_stage_seconds", "stage", (*STAGES, TOTAL))
    equal("stock_units", "state", StockState)
    equal("units", "phase", UnitPhase)
    equal("storages", "phase", StoragePhase)
    equal("pools", "phase", PoolPhase)
    assert {*Loss, *ends} <= values_of("worker_deliveries_total", "end")


@pytest.mark.parametrize("role", RoleName)
def test_series_known_beforehand_are_reported_from_the_start(role: RoleName) -> None:
    text = Registry(role).text().decode()
    for metric in CATALOGUE:
        for labels in metric.series_at_start(role):
            pairs = ",".join(f'{name}="{labels[name]}"' for name in sorted(labels))
            suffix = "_count" if metric.kind is Kind.HISTOGRAM else ""
            braced = f"{{{pairs}}}" if pairs else ""
            assert f"\n{metric.full_name}{suffix}{braced} 0.0\n" in text
    assert "\nprocess_resident_memory_bytes " in text


def test_the_exposition_carries_the_help_of_the_catalogue() -> None:
    text = Registry(RoleName.MANAGER).text().decode()
    help_text = BY_NAME["reconciles_total"].help
    assert f"# HELP gpuruntime_reconciles_total {help_text}\n" in text


def test_the_operators_page_has_the_whole_catalogue() -> None:
    page = PAGE.read_text()
    assert renewed(page) == page, "run `python -m tests.rooms.telemetry.metrics_page`"
