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


def test_a_series_that_was_not_there_before_was_added_whole() -> None:
    added = read(AFTER) - read(BEFORE)
    assert added.by(REQUESTS, "resource") == {("pods",): 3.0, ("units",): 1.0}


def test_a_total_is_of_the_series_that_have_the_labels() -> None:
    assert read(AFTER).total(REQUESTS, verb="patch") == 6.0


def test_nothing_is_told_of_series_that_did_not_move() -> None:
    assert ("list",) not in read(AFTER).by(REQUESTS, "verb")


def test_the_share_that_kept_a_bound_is_that_of_its_bucket() -> None:
    waits = read(WAITS)
    assert waits.at_most(WAIT, 0.98, queue="unit") == 0.1
    assert waits.at_most(WAIT, 0.99, queue="unit") == 1.0
    assert waits.at_most(WAIT, 1, queue="unit") == inf


def test_buckets_are_added_up_over_the_series_that_are_asked_for() -> None:
    assert read(WAITS).at_most(WAIT, 0.99) == 0.1


def test_nothing_was_ever_waited_for_where_nothing_was_observed() -> None:
    assert read("").at_most(WAIT, 1) == 0.0
