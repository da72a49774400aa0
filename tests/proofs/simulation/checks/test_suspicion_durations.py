from gpuruntime.audit.breach import Finding, Suspicion
from tests.proofs.simulation.checks.suspicion_durations import SuspicionDurations


def suspicion(name: str) -> Suspicion:
    finding = Finding(objects=(), message="", remedy="", allowed_seconds=10.0, version=name)
    return Suspicion(rule="a-rule", finding=finding)


ONE, TWO = suspicion("one"), suspicion("two")


def test_what_lasts_longer_than_it_may_is_told_while_it_lasts() -> None:
    durations = SuspicionDurations()
    assert [list(durations.too_long([ONE], now)) for now in (0.0, 10.0, 11.0)] == [[], [], [ONE]]


def test_what_has_ended_is_judged_by_its_end() -> None:
    durations = SuspicionDurations()
    assert list(durations.too_long([ONE], 0.0)) == []
    assert list(durations.too_long([], 11.0)) == [ONE]
    assert list(durations.too_long([], 22.0)) == []


def test_a_gap_begins_another_stretch() -> None:
    durations = SuspicionDurations()
    for now, seen in ((0.0, [ONE, TWO]), (8.0, [TWO]), (9.0, [ONE, TWO])):
        assert list(durations.too_long(seen, now)) == []
    assert list(durations.too_long([ONE, TWO], 12.0)) == [TWO]
