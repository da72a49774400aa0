"""Back-off of keys: failures in a row wait longer, and a success resets them."""

import pytest

from gpuruntime.workqueue.backoff import LONGEST_SECONDS, Backoff


def test_each_failure_in_a_row_doubles_the_delay() -> None:
    backoff: Backoff[str] = Backoff()

    assert [backoff.next_delay_seconds("a") for _ in range(4)] == [0.005, 0.01, 0.02, 0.04]


@pytest.mark.parametrize("failures", [19, 20, 5_000])
def test_no_delay_is_longer_than_sixteen_minutes(failures: int) -> None:
    backoff: Backoff[str] = Backoff()

    delays = [backoff.next_delay_seconds("a") for _ in range(failures)]

    assert delays[17] == 0.005 * 2**17 < LONGEST_SECONDS
    assert delays[18:] == [16 * 60.0] * (failures - 18)


def test_keys_do_not_share_their_failures() -> None:
    backoff: Backoff[str] = Backoff()
    backoff.next_delay_seconds("a")

    assert backoff.next_delay_seconds("b") == 0.005


def test_a_forgotten_key_starts_again_with_the_first_delay() -> None:
    backoff: Backoff[str] = Backoff()
    backoff.next_delay_seconds("a")

    backoff.forget("a")
    backoff.forget("never seen")

    assert backoff.next_delay_seconds("a") == 0.005
