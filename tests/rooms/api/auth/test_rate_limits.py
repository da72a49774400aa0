"""Limits of one caller's requests."""

import asyncio
import hashlib
from contextlib import ExitStack

import pytest

from gpuruntime.api.auth.access import Principal, Role
from gpuruntime.api.auth.rate_limits import Limits, RateLimits
from gpuruntime.api.auth.tokens import TokenGuard
from gpuruntime.api.errors import OverdrawnError
from tests.options import configured
from tests.rooms.api.service import UNITS, service
from tests.rooms.operations.cluster import Cluster

LIMITS = configured(Limits, per_second=2.0, burst=3, at_once=2)


def served(rate_limits: RateLimits, count: int, *, now: float, caller: str = "a") -> int:
    """Return how many of `count` sequential requests are served."""
    done = 0
    for _ in range(count):
        try:
            with rate_limits.use(caller, now):
                done += 1
        except OverdrawnError:
            pass
    return done


def test_after_a_burst_a_caller_is_limited_to_its_rate() -> None:
    rate_limits = RateLimits(LIMITS)
    assert served(rate_limits, 10, now=0.0) == 3
    assert served(rate_limits, 10, now=0.4) == 0
    assert served(rate_limits, 10, now=1.0) == 2
    assert served(rate_limits, 10, now=1000.0) == 3


def test_each_caller_has_its_own_limits() -> None:
    rate_limits = RateLimits(LIMITS)
    assert served(rate_limits, 10, now=0.0) == 3
    assert served(rate_limits, 10, now=0.0, caller="b") == 3


def test_a_refused_caller_gets_the_time_to_wait() -> None:
    rate_limits = RateLimits(configured(Limits, per_second=0.1, burst=1))
    served(rate_limits, 1, now=0.0)
    with pytest.raises(OverdrawnError) as caught, rate_limits.use("a", 2.0):
        pass
    assert caught.value.retry_after_seconds == 8


def test_a_caller_has_limited_requests_in_flight() -> None:
    rate_limits = RateLimits(LIMITS)
    with ExitStack() as held:
        held.enter_context(rate_limits.use("a", 0.0))
        held.enter_context(rate_limits.use("a", 0.0))
        assert served(rate_limits, 1, now=0.0) == 0
    assert served(rate_limits, 1, now=0.0) == 1


def test_a_failed_request_is_no_longer_in_flight() -> None:
    rate_limits = RateLimits(configured(Limits, at_once=1))
    with pytest.raises(ValueError, match="broken"), rate_limits.use("a", 0.0):
        raise ValueError("broken")
    assert served(rate_limits, 1, now=0.0) == 1


def test_only_idle_callers_are_forgotten() -> None:
    rate_limits = RateLimits(LIMITS, most_callers=2)
    with rate_limits.use("busy", 0.0):
        for number in range(10):
            served(rate_limits, 1, now=0.0, caller=f"c{number}")
        assert len(rate_limits) == 2
        with rate_limits.use("busy", 0.0):
            assert served(rate_limits, 1, now=0.0, caller="busy") == 0


@pytest.mark.looptime
async def test_over_http_only_the_eager_caller_is_limited() -> None:
    table = {
        hashlib.sha256(name.encode()).digest(): Principal(name=name, role=Role.OPERATOR)
        for name in ("eager", "calm")
    }
    guard = TokenGuard(lambda: table)
    async with service(Cluster(), guard=guard, limits=LIMITS) as api:

        async def ask(who: str) -> int:
            answer = await api.call("GET", UNITS, headers={"Authorization": f"Bearer {who}"})
            if answer.status == 429:
                assert answer.code == "too_many_requests"
                assert answer.headers["Retry-After"] == "1"
            return answer.status

        assert [await ask("eager") for _ in range(5)] == [200, 200, 200, 429, 429]
        assert await ask("calm") == 200
        await asyncio.sleep(1)
        assert await ask("eager") == 200


@pytest.mark.looptime
async def test_without_authentication_no_caller_is_limited() -> None:
    async with service(Cluster(), limits=LIMITS) as api:
        assert [(await api.call("GET", UNITS)).status for _ in range(9)] == [200] * 9
