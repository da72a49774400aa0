import pytest

from gpuruntime.observe.metrics import MOST_SERIES, Registry


def test_counts_gauges_and_times_are_written_as_prometheus_text() -> None:
    registry = Registry()
    registry.count("reconciles_total", controller="unit", outcome="done")
    registry.count("reconciles_total", 2, controller="unit", outcome="done")
    registry.gauge("leader", 1)
    registry.observe("reconcile_seconds", 0.02, controller="unit")
    text = registry.text().decode()
    assert 'gpuruntime_reconciles_total{controller="unit",outcome="done"} 3.0' in text
    assert "gpuruntime_leader 1.0" in text
    assert 'gpuruntime_reconcile_seconds_bucket{controller="unit",le="0.025"} 1.0' in text


def test_two_roles_in_one_process_count_apart() -> None:
    first, second = Registry(), Registry()
    first.count("things_total")
    second.count("things_total", 5)
    assert b"gpuruntime_things_total 1.0" in first.text()
    assert b"gpuruntime_things_total 5.0" in second.text()


def test_a_metric_keeps_its_kind() -> None:
    registry = Registry()
    registry.gauge("depth", 1)
    with pytest.raises(TypeError, match="metric depth is a Gauge, not a Counter"):
        registry.count("depth")


def test_the_order_of_the_labels_does_not_matter() -> None:
    registry = Registry()
    registry.count("moves_total", origin="a", goal="b")
    registry.count("moves_total", goal="b", origin="a")
    registry.count("moves_total", goal="a", origin="b")
    text = registry.text().decode()
    assert 'gpuruntime_moves_total{goal="b",origin="a"} 2.0' in text
    assert 'gpuruntime_moves_total{goal="a",origin="b"} 1.0' in text


def test_an_unbounded_label_ends_in_one_series_for_the_rest() -> None:
    registry = Registry()
    for number in range(MOST_SERIES + 10):
        registry.count("requests_total", path=str(number))
    text = registry.text().decode()
    assert 'path="other"} 10.0' in text
    assert f'path="{MOST_SERIES + 5}"' not in text
