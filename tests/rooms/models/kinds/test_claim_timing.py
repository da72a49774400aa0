"""The order of the times that the safety of a claim rests on."""

import inspect

import attrs
import pytest

from gpuruntime.audit.claims import CONSUME_SECONDS
from gpuruntime.kube.client import Client
from gpuruntime.kube.transport import Request
from gpuruntime.kube.watch import IDLE_LIMIT_SECONDS
from gpuruntime.models.kinds.claim_timing import (
    ATTEMPT_SECONDS,
    CREATE_BOUND_SECONDS,
    DOUBT_SECONDS,
    GRACE_SECONDS,
    REQUEST_LIFE_SECONDS,
    SHORTEST_RETENTION_SECONDS,
)
from gpuruntime.operations.options import Options
from tests.options import configured

CLIENT_TIMEOUT = inspect.signature(Client).parameters["timeout_seconds"].default
REQUEST_TIMEOUT = attrs.fields(Request).timeout_seconds.default


@pytest.mark.parametrize(
    ("shorter", "longer"),
    [
        pytest.param(
            CREATE_BOUND_SECONDS + REQUEST_LIFE_SECONDS,
            GRACE_SECONDS,
            id="create bound + request life ≤ grace: no create lands after its claim is freed",
        ),
        pytest.param(
            CREATE_BOUND_SECONDS + CLIENT_TIMEOUT,
            ATTEMPT_SECONDS,
            id="create bound + timeout ≤ attempt: the last create sent is waited for",
        ),
        pytest.param(
            ATTEMPT_SECONDS,
            GRACE_SECONDS,
            id="attempt ≤ grace: no attempt answers with a claim that was freed meanwhile",
        ),
        pytest.param(
            CLIENT_TIMEOUT,
            REQUEST_LIFE_SECONDS,
            id="timeout ≤ request life: a request that is waited for is not taken for landed",
        ),
        pytest.param(
            REQUEST_TIMEOUT,
            REQUEST_LIFE_SECONDS,
            id="timeout of a request without a client ≤ request life: the same",
        ),
        pytest.param(
            2 * GRACE_SECONDS,
            DOUBT_SECONDS,
            id="2 graces ≤ doubt: a change of leader restarts the grace and is no breach",
        ),
        pytest.param(
            2 * REQUEST_LIFE_SECONDS,
            CONSUME_SECONDS,
            id="2 request lives ≤ consume: a new leader and a lost answer each delay the record",
        ),
        pytest.param(
            CREATE_BOUND_SECONDS + REQUEST_LIFE_SECONDS + IDLE_LIMIT_SECONDS,
            SHORTEST_RETENTION_SECONDS,
            id="create bound + request life + silent watch ≤ retention: a late unit is removed",
        ),
    ],
)
def test_a_time_of_a_claim_is_long_enough(shorter: float, longer: float) -> None:
    assert 0 < shorter <= longer


def test_the_options_of_the_use_cases_have_these_times() -> None:
    options = configured(Options)
    assert options.create_bound_seconds == CREATE_BOUND_SECONDS
    assert options.attempt_seconds == ATTEMPT_SECONDS
