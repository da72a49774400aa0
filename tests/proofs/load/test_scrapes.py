from math import inf

from tests.proofs.load.scrapes import read

BEFORE = """\
# TYPE gpuruntime_kube_requests_total counter
gpuruntime_kube_requests_total{verb="patch",resource="pods"} 2.0
"""
AFTER = """\
# TYPE gpuruntime_kube_requests_total counter
gpuruntime_kube_requests_total{verb="patch",resource="pods"} 5.0
gpuruntime_kube_requests_total{verb="patch",resource="units"} 1.0
gpuruntime_kube_requests_total{verb="list",resource="pods"} 0.0
"""
WAITS = """\
# TYPE gpuruntime_wait_seconds histogram
gpuruntime_wait_seconds_bucket{queue="unit",le="0.1"} 98.0
gpuruntime_wait_seconds_bucket{queue="unit",le="1.0"} 99.0
gpuruntime_wait_seconds_bucket{queue="unit",le="+Inf"} 100.0
gpuruntime_wait_seconds_bucket{queue="pool",le="0.1"} 100.0
gpuruntime_wait_seconds_bucket{queue="pool",le="1.0"} 100.0
gpuruntime_wait_seconds_bucket{queue="pool",le="+Inf"} 100.0
"""
REQUESTS = "gpuruntime_kube_requests_total"
WAIT = "gpuruntime_wait_seconds"


def test_a_new_series_counts_as_grown_by_its_whole_value() -> None:
    added = read(AFTER) - read(BEFORE)
    assert added.by(REQUESTS, "resource") == {("pods",): 3.0, ("units",): 1.0}


def test_a_total_sums_the_series_that_have_the_labels() -> None:
    assert read(AFTER).total(REQUESTS, verb="patch") == 6.0


def test_totals_leave_out_series_that_are_zero() -> None:
    assert ("list",) not in read(AFTER).by(REQUESTS, "verb")


def test_a_bound_is_the_smallest_bucket_that_holds_the_share() -> None:
    waits = read(WAITS)
    assert waits.at_most(WAIT, 0.98, queue="unit") == 0.1
    assert waits.at_most(WAIT, 0.99, queue="unit") == 1.0
    assert waits.at_most(WAIT, 1, queue="unit") == inf


def test_a_bound_sums_the_buckets_of_all_selected_series() -> None:
    assert read(WAITS).at_most(WAIT, 0.99) == 0.1


def test_a_bound_without_observations_is_zero() -> None:
    assert read("").at_most(WAIT, 1) == 0.0
