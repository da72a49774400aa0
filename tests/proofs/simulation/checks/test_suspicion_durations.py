from gpuruntime.audit.breach import Finding, Suspicion
from tests.proofs.simulation.checks.suspicion_durations import SuspicionDurations


def suspicion(name: str) -> Suspicion:
    finding = Finding(objects=(), message="", remedy="", allowed_seconds=10.0, version=name)
    return Suspicion(rule="a-rule", finding=finding)


ONE, TWO = suspicion("one"), suspicion("two")


def test_a_suspicion_is_reported_while_it_lasts_too_long() -> None:
    durations = SuspicionDurations()
    assert [list(durations.too_long([ONE], now)) for now in (0.0, 10.0, 11.0)] == [[], [], [ONE]]


def test_an_ended_suspicion_is_reported_once_if_it_lasted_too_long() -> None:
    durations = SuspicionDurations()
    assert list(durations.too_long([ONE], 0.0)) == []
    assert list(durations.too_long([], 11.0)) == [ONE]
    assert list(durations.too_long([], 22.0)) == []


def test_a_suspicion_that_returns_after_a_gap_starts_again() -> None:
    durations = SuspicionDurations()
    for now, seen in ((0.0, [ONE, TWO]), (8.0, [TWO]), (9.0, [ONE, TWO])):
        assert list(durations.too_long(seen, now)) == []
    assert list(durations.too_long([ONE, TWO], 12.0)) == [TWO]
