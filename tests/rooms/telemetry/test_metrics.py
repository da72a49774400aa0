import pytest

from gpuruntime.telemetry.metric import Kind, Label, Metric, RoleName
from gpuruntime.telemetry.metrics import MOST_SERIES, Registry

ORIGIN, GOAL = Label("origin", bound="places"), Label("goal", ("a", "b"))
API, MANAGER = (RoleName.API,), (RoleName.MANAGER,)
BOTH = (RoleName.API, RoleName.MANAGER)
BY_ROLE = Label("goal", by_role={RoleName.API: ("a", "b"), RoleName.MANAGER: ("c",)})
PLACE, KIND = Label("place", bound="places"), Label("kind", bound="kinds")
CATALOGUE = (
    Metric(Kind.COUNTER, "things_total", API, (), "Things."),
    Metric(Kind.GAUGE, "depth", MANAGER, (), "Depth."),
    Metric(Kind.COUNTER, "moves_total", API, (ORIGIN, GOAL), "Moves."),
    Metric(Kind.COUNTER, "goals_total", BOTH, (BY_ROLE,), "Goals."),
    Metric(Kind.GAUGE, "places", MANAGER, (PLACE, KIND), "Places.", is_reported_from_start=False),
    Metric(Kind.HISTOGRAM, "long_seconds", API, (), "Takes minutes.", buckets=(60, 3600)),
)


def registry_of(role: RoleName | None = None) -> Registry:
    return Registry(role, catalogue=CATALOGUE)


def test_counts_gauges_and_times_are_written_as_prometheus_text() -> None:
    registry = Registry()
    registry.count("reconciles_total", controller="unit", outcome="done")
    registry.count("reconciles_total", 2, controller="unit", outcome="done")
    registry.gauge("workqueue_depth", 1, queue="unit")
    registry.observe("reconcile_seconds", 0.02, controller="unit")
    text = registry.text().decode()
    assert 'gpuruntime_reconciles_total{controller="unit",outcome="done"} 3.0' in text
    assert 'gpuruntime_workqueue_depth{queue="unit"} 1.0' in text
    assert 'gpuruntime_reconcile_seconds_bucket{controller="unit",le="0.025"} 1.0' in text


def test_two_roles_in_one_process_count_separately() -> None:
    first, second = registry_of(), registry_of()
    first.count("things_total")
    second.count("things_total", 5)
    assert b"gpuruntime_things_total 1.0" in first.text()
    assert b"gpuruntime_things_total 5.0" in second.text()


def test_a_metric_keeps_its_kind() -> None:
    registry = registry_of()
    registry.gauge("depth", 1)
    with pytest.raises(TypeError, match="metric depth is a Gauge, not a Counter"):
        registry.count("depth")


def test_a_metric_that_is_not_in_the_catalogue_is_an_error() -> None:
    with pytest.raises(LookupError, match="metric things is not in the catalogue"):
        registry_of().count("things")


def test_a_label_that_is_not_in_the_catalogue_is_an_error() -> None:
    with pytest.raises(ValueError, match="label"):
        registry_of().count("things_total", colour="red")


def test_the_order_of_the_labels_does_not_matter() -> None:
    registry = registry_of()
    registry.count("moves_total", origin="a", goal="b")
    registry.count("moves_total", goal="b", origin="a")
    registry.count("moves_total", goal="a", origin="b")
    text = registry.text().decode()
    assert 'gpuruntime_moves_total{goal="b",origin="a"} 2.0' in text
    assert 'gpuruntime_moves_total{goal="a",origin="b"} 1.0' in text


def test_a_role_reports_known_series_from_the_start_and_none_of_other_roles() -> None:
    text = registry_of(RoleName.API).text().decode()
    shown = {line for line in text.splitlines() if line.startswith("gpuruntime_")}
    assert shown >= {
        "gpuruntime_things_total 0.0",
        'gpuruntime_goals_total{goal="a"} 0.0',
        'gpuruntime_goals_total{goal="b"} 0.0',
        "gpuruntime_long_seconds_count 0.0",
    }
    assert "gpuruntime_depth" not in text
    assert "gpuruntime_moves_total{" not in text
    assert 'goal="c"' not in text


def test_a_histogram_may_have_its_own_buckets() -> None:
    registry = registry_of()
    registry.observe("long_seconds", 1800)
    text = registry.text().decode()
    assert 'gpuruntime_long_seconds_bucket{le="60.0"} 0.0' in text
    assert 'gpuruntime_long_seconds_bucket{le="3600.0"} 1.0' in text


def test_an_unbounded_label_ends_in_one_series_for_the_rest() -> None:
    registry = registry_of()
    for number in range(MOST_SERIES + 10):
        registry.count("moves_total", origin=str(number), goal="a")
    text = registry.text().decode()
    assert 'gpuruntime_moves_total{goal="other",origin="other"} 10.0' in text
    assert f'origin="{MOST_SERIES + 5}"' not in text


def test_a_gauge_read_at_each_scrape_shows_the_current_series_only() -> None:
    registry = registry_of()
    rows: dict[tuple[str, ...], float] = {("a", "x"): 2.0, ("b", "x"): 1.0}
    registry.gauge_from("places", lambda: rows)
    assert b'gpuruntime_places{kind="x",place="a"} 2.0' in registry.text()
    del rows["a", "x"]
    text = registry.text().decode()
    assert 'place="a"' not in text
    assert 'gpuruntime_places{kind="x",place="b"} 1.0' in text
    assert "# HELP gpuruntime_places Places.\n" in text


def test_the_greatest_of_too_many_series_are_reported() -> None:
    registry = registry_of()
    rows: dict[tuple[str, ...], float]
    rows = {(str(number), "x"): float(number) for number in range(MOST_SERIES + 10)}
    registry.gauge_from("places", lambda: rows)
    text = registry.text().decode()
    assert text.count("gpuruntime_places{") == MOST_SERIES
    assert 'place="9"' not in text
    assert 'place="10"' in text


def test_the_text_comes_family_by_family() -> None:
    registry = registry_of(RoleName.API)
    pieces = list(registry.families())
    assert b"".join(pieces) == registry.text()
    assert all(piece.count(b"# TYPE ") == 1 for piece in pieces)
