"""Alerts and dashboard use only metrics that the roles report, and every alert is explained."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpuruntime.telemetry.catalogue import CATALOGUE
from gpuruntime.telemetry.metric import Kind, Metric
from tests.proofs.monitoring.promql import Matcher, Selector, parse
from tests.proofs.monitoring.rules import FOLDER, Alert, alerts, dashboard, queries, runbooks

# Labels and metrics that Prometheus adds to each target.
TARGET = frozenset({"namespace", "pod", "instance", "job"})
PROCESS = frozenset(
    {
        "process_cpu_seconds_total",
        "process_resident_memory_bytes",
        "process_start_time_seconds",
    }
)
PAGE = (FOLDER.parents[1] / "docs" / "alerts.md").read_text()
EXPRESSIONS = sorted(
    {alert.expression for alert in alerts()} | {query.expression for query in queries()}
)


def series() -> dict[str, Metric]:
    """Return the metrics by the names under which queries find them."""
    suffixes = ("_bucket", "_count", "_sum")
    return {
        metric.full_name + suffix: metric
        for metric in CATALOGUE
        for suffix in (suffixes if metric.kind is Kind.HISTOGRAM else ("",))
    }


def labels_of(selector: Selector) -> frozenset[str]:
    if selector.metric in PROCESS:
        return TARGET
    own = {label.name for label in series()[selector.metric].labels}
    return TARGET | own | ({"le"} if selector.metric.endswith("_bucket") else set())


def is_possible(selector: Selector, matcher: Matcher) -> bool:
    """Return whether the label may have the value; True if its values are not all known."""
    [label] = (each for each in series()[selector.metric].labels if each.name == matcher.label)
    return not label.known or label.known.issuperset(matcher.values)


@pytest.mark.parametrize("text", EXPRESSIONS)
def test_an_expression_uses_only_metrics_and_labels_of_the_catalogue(text: str) -> None:
    expression = parse(text)
    assert expression.selectors
    for selector in expression.selectors:
        assert selector.metric in series().keys() | PROCESS
        for matcher in selector.matchers:
            assert matcher.label in labels_of(selector)
            assert is_possible(selector, matcher), f"{selector}: {matcher.value}"
    assert expression.grouped <= frozenset().union(*map(labels_of, expression.selectors))


@pytest.mark.parametrize("text", EXPRESSIONS)
def test_a_counter_is_queried_by_its_growth_and_a_gauge_by_its_value(text: str) -> None:
    for selector in parse(text).selectors:
        metric = series().get(selector.metric)
        if metric is None:
            continue
        metric_name = re.escape(selector.metric)
        is_grown = re.search(rf"(rate|increase)\({metric_name}(\{{[^}}]*\}})?\[", text) is not None
        assert is_grown is (metric.kind is not Kind.GAUGE), selector


@pytest.mark.parametrize("alert", alerts(), ids=lambda alert: alert.name)
def test_an_alert_has_a_summary_and_a_link_to_its_explanation(alert: Alert) -> None:
    assert alert.severity in {"critical", "warning"}
    assert alert.annotations.keys() == {"summary", "description", "runbook"}
    assert alert.annotations["runbook"] == f"{runbooks()}#{alert.name.lower()}"
    section = PAGE.partition(f"\n## {alert.name}\n")[2].partition("\n## ")[0]
    for part in ("**Means.**", "**Look at.**", "**Do.**"):
        assert part in section


def test_the_address_of_the_runbooks_is_full_and_the_page_names_it() -> None:
    assert re.fullmatch(r"https://[^#\s]+/alerts\.md", runbooks())
    assert f"`{runbooks()}`" in PAGE


def test_the_page_explains_each_alert_once_and_no_others() -> None:
    names = [alert.name for alert in alerts()]
    assert re.findall(r"^## (\w+)$", PAGE, re.MULTILINE) == sorted(
        re.findall(r"^## (\w+)$", PAGE, re.MULTILINE), key=names.index
    )
    assert sorted(re.findall(r"^## (\w+)$", PAGE, re.MULTILINE)) == sorted(set(names))


def test_the_component_contains_every_file_of_its_folder() -> None:
    component = yaml.safe_load((FOLDER / "kustomization.yaml").read_text())
    assert component["kind"] == "Component"
    files = {*component["resources"], "dashboard.json", "kustomization.yaml"}
    assert files == {path.name for path in FOLDER.iterdir()}


def test_the_monitor_selects_every_role_of_the_manifests() -> None:
    monitor = yaml.safe_load((FOLDER / "pod-monitor.yaml").read_text())["spec"]
    wanted = monitor["selector"]["matchLabels"]
    [endpoint] = monitor["podMetricsEndpoints"]
    for file in (
        "control-plane/manager",
        "control-plane/api",
        "serverless/activator",
        "serverless/results",
        "gateway/gateway",
    ):
        template = deployment(FOLDER.parent / f"{file}.yaml")["spec"]["template"]
        assert wanted.items() <= template["metadata"]["labels"].items()
        ports = {port["name"] for port in template["spec"]["containers"][0]["ports"]}
        assert endpoint["port"] in ports


def deployment(path: Path) -> Any:
    [found] = (
        each for each in yaml.safe_load_all(path.read_text()) if each["kind"] == "Deployment"
    )
    return found


def test_dashboard_panels_have_unique_ids_and_do_not_overlap() -> None:
    panels = dashboard()["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    places = [panel["gridPos"] for panel in panels]
    cells = [
        (x, y)
        for place in places
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(cells) == len(set(cells))
    assert all(place["x"] + place["w"] <= 24 for place in places)
