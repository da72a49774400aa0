"""A few seeds, and runs without faults: what is idle is called idle."""

import pytest

from tests.proofs.activity.fleet import UNITS
from tests.proofs.activity.run import CALLED_ONCE_AT, EVERY_SECONDS, RUN_SECONDS, run_seed


@pytest.mark.parametrize("seed", range(6))
def test_no_active_unit_is_called_idle(seed: int) -> None:
    run = run_seed(seed)
    assert run.breaches == []
    assert max(run.longest.values()) > 2 * EVERY_SECONDS
    assert run.looks > RUN_SECONDS * len(UNITS) * 0.9
    assert run.faults.total() > 0


def test_without_faults_a_unit_is_idle_since_its_last_call_whatever_pings_it() -> None:
    run = run_seed(0, is_faulty=False)
    assert run.breaches == []
    *_, pinged, never_called = UNITS
    assert run.longest[never_called] > RUN_SECONDS - 2 * EVERY_SECONDS
    assert run.longest[pinged] > RUN_SECONDS - CALLED_ONCE_AT - 2 * EVERY_SECONDS
