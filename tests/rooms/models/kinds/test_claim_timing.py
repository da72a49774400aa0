"""The order of the times that the safety of a claim rests on."""

import attrs

from gpuruntime.audit.claims import DOUBT_SECONDS
from gpuruntime.kube.transport import Request
from gpuruntime.models.kinds.claim_timing import (
    ATTEMPT_SECONDS,
    CREATE_BOUND_SECONDS,
    GRACE_SECONDS,
)
from gpuruntime.operations.options import Options
from gpuruntime.reconcilers.unit.start_plan import REQUEST_LIFE_SECONDS


def test_a_create_has_landed_or_failed_before_its_claim_is_freed() -> None:
    assert CREATE_BOUND_SECONDS + REQUEST_LIFE_SECONDS <= GRACE_SECONDS


def test_an_attempt_ends_before_its_claim_is_freed() -> None:
    assert CREATE_BOUND_SECONDS < ATTEMPT_SECONDS < GRACE_SECONDS


def test_a_request_times_out_within_the_life_of_a_request() -> None:
    default = attrs.fields(Request).timeout_seconds.default
    assert default is not None
    assert default <= REQUEST_LIFE_SECONDS


def test_the_audit_allows_the_grace_of_two_leaders_in_a_row() -> None:
    assert DOUBT_SECONDS >= 2 * GRACE_SECONDS


def test_the_options_of_the_use_cases_have_these_times() -> None:
    options = Options()
    assert options.create_bound_seconds == CREATE_BOUND_SECONDS
    assert options.attempt_seconds == ATTEMPT_SECONDS
