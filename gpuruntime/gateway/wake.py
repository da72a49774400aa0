"""Requests for suspended units: the API is asked to resume the unit, and the request waits.

The gateway itself writes nothing. A request waits with its head alone; no body is taken before.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from random import Random
from typing import Final, TypeAlias

import aiohttp
import attrs
import structlog

from gpuruntime.concurrency.clock import loop_time
from gpuruntime.concurrency.waiting import is_set_within
from gpuruntime.gateway.errors import Code, GatewayError
from gpuruntime.gateway.gate import (
    Gate,
    Presented,
    Visitor,
    Wanted,
    demand_reachable,
    suspended_error,
)
from gpuruntime.meter import Meter
from gpuruntime.models.kinds.phases import UnitPhase, phase_of
from gpuruntime.models.kinds.reasons import ConditionType, UnitReason
from gpuruntime.models.kinds.units import GPUUnit
from gpuruntime.models.kubernetes.conditions import condition_of
from gpuruntime.models.kubernetes.metadata import Key
from gpuruntime.tickets.keys import KeyRing
from gpuruntime.tickets.tokens import Claims, TokenType, sign

# A unit is asked for once in this time by each replica.
WAKE_SECONDS: Final = 5.0
_TOKEN_SECONDS: Final = 60
_ANSWER_SECONDS: Final = 10.0
MOST_HELD_PER_UNIT: Final = 64
MOST_HELD: Final = 1024

# Returns the visitor, judged by its unit as it is now, or raises GatewayError.
Recognize: TypeAlias = Callable[[], Visitor]

log = structlog.get_logger()


@attrs.frozen(kw_only=True, slots=True)
class WakeOptions:
    """`api` is the URL of the API, or empty if no unit is resumed."""

    api: str
    hold_seconds: float


class Waker:
    def __init__(
        self,
        gate: Gate,
        ring: Callable[[], KeyRing | None],
        options: WakeOptions,
        *,
        now: Callable[[], datetime],
        rng: Random,
        meter: Meter,
    ) -> None:
        self._gate = gate
        self._ring = ring
        self._options = options
        self._now = now
        self._rng = rng
        self._meter = meter
        self._held: Counter[str] = Counter()
        # The loop time of the last wake of each unit, and what its waiting requests wait for.
        self._asked_at: dict[str, float] = {}
        self._changed: dict[str, asyncio.Event] = {}

    @property
    def held(self) -> int:
        """Return how many callers wait for their units."""
        return self._held.total()

    async def admit(
        self, presented: Presented, wanted: Wanted, *, may_hold: bool = True
    ) -> Visitor:
        """Return the visitor once its unit runs; resume the unit if it may be. Raise GatewayError.

        Without `may_hold` the caller comes again by itself, so it does not wait.
        """
        return await self.awaken(
            lambda: self._gate.recognize(presented, wanted), may_hold=may_hold
        )

    async def awaken(self, recognize: Recognize, *, may_hold: bool = True) -> Visitor:
        """Return whom `recognize` returns once the unit runs, as `admit` does."""
        visitor = recognize()
        demand_reachable(visitor.unit)
        if is_awake(visitor.unit) or not visitor.unit.spec.access.wake:
            return visitor
        await self._ask(visitor.unit)
        if not may_hold:
            raise waking_error(visitor.unit)
        with self._place(visitor):
            return await self._awake(recognize)

    def unit_changed(self, _: Key, old: GPUUnit | None, new: GPUUnit | None) -> None:
        """Let the requests that wait for the unit look again. The mirror calls it."""
        for unit in (old, new):
            if unit is not None and (event := self._changed.pop(unit.metadata.uid, None)):
                event.set()
        if new is None and old is not None:
            self._asked_at.pop(old.metadata.uid, None)

    async def _awake(self, recognize: Recognize) -> Visitor:
        until = loop_time() + self._options.hold_seconds
        while True:
            visitor = recognize()
            unit = visitor.unit
            if is_awake(unit):
                return visitor
            remaining = until - loop_time()
            if remaining <= 0 or phase_of(unit.status.conditions) is UnitPhase.FAILED:
                raise waking_error(unit)
            await self._ask(unit)
            event = self._changed.setdefault(unit.metadata.uid, asyncio.Event())
            await is_set_within(event, min(remaining, WAKE_SECONDS))

    @contextmanager
    def _place(self, visitor: Visitor) -> Iterator[None]:
        uid = visitor.uid
        if self._held[uid] >= MOST_HELD_PER_UNIT or self._held.total() >= MOST_HELD:
            raise waking_error(visitor.unit)
        self._held[uid] += 1
        try:
            yield
        finally:
            self._held[uid] -= 1
            if not self._held[uid]:
                del self._held[uid]

    async def _ask(self, unit: GPUUnit) -> None:
        """Ask the API to resume the unit, at most once in a while. A failure is only logged."""
        uid = unit.metadata.uid
        is_recent = loop_time() - self._asked_at.get(uid, float("-inf")) < WAKE_SECONDS
        ring = self._ring()
        if not unit.spec.suspended or is_recent or ring is None:
            return
        if not self._options.api:
            raise suspended_error(unit, "resume it, as this gateway has no gateway.api for that")
        self._asked_at[uid] = loop_time()
        status = await self._sent(unit, self._token(unit, ring))
        self._meter.count("gateway_wakes_total", outcome=_outcome_of(status))
        log.info("unit asked to resume", unit=unit.metadata.name, status=status)

    def _token(self, unit: GPUUnit, ring: KeyRing) -> str:
        issued_at = int(self._now().timestamp())
        claims = Claims(
            jti=f"{self._rng.getrandbits(128):032x}",
            uid=unit.metadata.uid,
            unit=unit.metadata.name,
            gen=unit.spec.access.generation,
            use=(),
            iat=issued_at,
            exp=issued_at + _TOKEN_SECONDS,
            sub="gateway",
        )
        return sign(claims, TokenType.WAKE, ring.signing)

    async def _sent(self, unit: GPUUnit, token: str) -> int:
        """Return the status of the answer, or 0 if there was none."""
        url = f"{self._options.api.rstrip('/')}/api/v1/gpu-units/{unit.metadata.name}/wake"
        timeout = aiohttp.ClientTimeout(total=_ANSWER_SECONDS)
        try:
            async with (
                aiohttp.ClientSession(
                    timeout=timeout, cookie_jar=aiohttp.DummyCookieJar()
                ) as session,
                session.post(
                    url,
                    json={},
                    headers={"Authorization": f"Bearer {token}"},
                    allow_redirects=False,
                ) as answer,
            ):
                return answer.status
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            log.info("the API was not asked", unit=unit.metadata.name, error=str(error))
            return 0


def is_awake(unit: GPUUnit) -> bool:
    """Return whether a unit with `wake` takes requests: it is ready, and not suspended."""
    ready = condition_of(unit.status.conditions, ConditionType.READY)
    is_ready = ready is not None and ready.is_true
    return is_ready and not unit.spec.suspended


def why_not_ready(unit: GPUUnit) -> str:
    """Return what the unit's condition says, or "" if the unit is ready or has none yet.

    Right after a wake the condition still says that the unit is suspended; that is no reason.
    """
    ready = condition_of(unit.status.conditions, ConditionType.READY)
    if ready is None or ready.is_true or ready.reason == UnitReason.SCALED_TO_ZERO:
        return ""
    return f"{ready.reason}: {ready.message}"


def waking_error(unit: GPUUnit) -> GatewayError:
    """Return the refusal with the unit's own reason, such as that no node accepts its Pod."""
    why = why_not_ready(unit)
    return GatewayError(
        Code.UNIT_WAKING,
        f"unit {unit.metadata.name} is being resumed: {why or 'it starts'}; retry later",
        state=why,
    )


def _outcome_of(status: int) -> str:
    if not status:
        return "unreachable"
    return "accepted" if status < 300 else "refused"
