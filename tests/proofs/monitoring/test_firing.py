"""Prometheus' own promtool checks the rules: they are sound, can fire, and never without cause."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.proofs.monitoring.firing import FIRING, HEALTHY, MINUTES, series_of
from tests.proofs.monitoring.prometheus import promtool, write_rules
from tests.proofs.monitoring.rules import alerts

pytestmark = pytest.mark.cluster


def story(series: dict[str, str], *, minute: int, expected: dict[str, float]) -> Any:
    """Return a test for promtool; `expected` maps expressions to their value at that minute."""
    return {
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in series.items()],
        "promql_expr_test": [
            {
                "expr": expression,
                "eval_time": f"{minute}m",
                "exp_samples": [{"labels": "{}", "value": value}],
            }
            for expression, value in expected.items()
        ],
    }


def run_promtool(folder: Path, *stories: Any) -> None:
    document = {
        "rule_files": [str(write_rules(folder))],
        "evaluation_interval": "1m",
        "tests": list(stories),
    }
    path = folder / "tests.yaml"
    path.write_text(yaml.safe_dump(document))
    promtool("test", "rules", str(path))


def firing(name: str) -> str:
    return f'count(ALERTS{{alertname="{name}",alertstate="firing"}}) > bool 0'


def test_promtool_finds_no_fault_in_the_rules(tmp_path: Path) -> None:
    output = promtool("check", "rules", str(write_rules(tmp_path)))
    assert f"{len(alerts())} rules found" in output


def test_there_is_a_cause_for_every_alert() -> None:
    assert FIRING.keys() == {alert.name for alert in alerts()}


def test_every_alert_fires_with_its_cause(tmp_path: Path) -> None:
    stories = [
        story(series_of(name), minute=MINUTES - 30, expected={firing(name): 1}) for name in FIRING
    ]
    run_promtool(tmp_path, *stories)


def test_a_missing_gateway_is_told_only_if_one_has_an_address(tmp_path: Path) -> None:
    without = {
        name: values
        for name, values in HEALTHY.items()
        if "gateway-0" not in name and "gpuruntime_activity" not in name
    }
    known = [name for name in HEALTHY if name.startswith("gpuruntime_activity_known_seconds")]
    addressed = {**without, **{name: HEALTHY[name] for name in known}}
    expression = firing("GpuruntimeGatewayUnavailable")
    run_promtool(
        tmp_path,
        story(addressed, minute=45, expected={expression: 1}),
        story(without, minute=45, expected={"count(ALERTS) or vector(0)": 0}),
    )


def test_no_alert_fires_on_a_healthy_installation(tmp_path: Path) -> None:
    quiet = {"count(ALERTS) or vector(0)": 0.0}
    stories = [story(HEALTHY, minute=minute, expected=quiet) for minute in (45, 100)]
    run_promtool(tmp_path, *stories)
