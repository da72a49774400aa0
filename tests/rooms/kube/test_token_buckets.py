"""Buckets empty, fill with time, and stay few."""

from gpuruntime.kube.token_buckets import TokenBuckets


def test_a_bucket_gives_its_burst_and_then_one_token_a_period() -> None:
    buckets = TokenBuckets(burst=3, seconds_per_token=10.0, capacity=10)
    assert [buckets.take("a", 0.0) for _ in range(4)] == [True, True, True, False]
    assert [buckets.take("a", moment) for moment in (9.0, 10.0, 11.0)] == [False, True, False]


def test_a_bucket_never_holds_more_than_its_burst() -> None:
    buckets = TokenBuckets(burst=2, seconds_per_token=1.0, capacity=10)
    assert [buckets.take("a", 1e6) for _ in range(3)] == [True, True, False]


def test_the_bucket_unused_for_longest_makes_room() -> None:
    buckets = TokenBuckets(burst=1, seconds_per_token=1e9, capacity=2)
    for key in ("a", "b", "a", "c"):
        buckets.take(key, 0.0)
    assert [buckets.take(key, 0.0) for key in ("a", "b")] == [False, True]
