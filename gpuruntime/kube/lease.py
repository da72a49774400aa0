"""Leader election by a Lease: at most one process believes that it leads, whatever fails.

The leader counts from the start of its last successful write and stops at the renew deadline.
Other processes count the longer lease duration from when they first saw that write. Each process
counts on its own monotonic clock, and no time in the Lease is trusted. Every write is guarded by
the version that it was decided on, so of two equal decisions only one succeeds.

Two things are assumed. The clocks run equally fast within the margin between deadline and
duration. An identity belongs to a single process; a restarted process has another one.
"""

import asyncio
import math
from collections.abc import Callable
from datetime import datetime
from random import Random

import attrs
from structlog import get_logger

from gpuruntime.kube.client import Client
from gpuruntime.kube.errors import (
    ConflictError,
    KubeError,
    LeadershipLostError,
    NotFoundError,
    NotLeadingError,
)
from gpuruntime.kube.events import reference_to
from gpuruntime.kube.transport import Transport
from gpuruntime.meter import Meter, NullMeter
from gpuruntime.models.encoding.json import JsonObject
from gpuruntime.models.kubernetes.cluster import LEASES, Lease, ObjectReference
from gpuruntime.models.kubernetes.metadata import Key, ObjectMeta
from gpuruntime.models.kubernetes.timestamps import rfc3339_micro

log = get_logger()

NEVER = -math.inf
JITTER = 0.2
SHORTEST_PAUSE_SECONDS = 0.2
JUST_AFTER_SECONDS = 0.01  # a sleep until the deadline ends after it
RELEASED_DURATION_SECONDS = 1  # the value of other Kubernetes electors


@attrs.frozen(kw_only=True, slots=True)
class LeaseOptions:
    """Duration > deadline > period. The identity is unique to this process."""

    key: Key
    identity: str
    lease_duration_seconds: float
    renew_deadline_seconds: float
    retry_period_seconds: float

    @property
    def request_timeout_seconds(self) -> float:
        """Return a third of the deadline, so that a stalled request leaves time for others."""
        return self.renew_deadline_seconds / 3

    @property
    def attempt_timeout_seconds(self) -> float:
        """Return the time of two requests: an attempt is a read and a write."""
        return 2 * self.request_timeout_seconds


class Elector:
    """An elector leads at most once. A process that lost the Lease ends and starts afresh."""

    def __init__(
        self,
        transport: Transport,
        options: LeaseOptions,
        *,
        clock: Callable[[], float],
        now: Callable[[], datetime],
        rng: Random,
        meter: Meter = NullMeter(),
    ) -> None:
        self.leading = asyncio.Event()
        # Whether a stop releases the Lease; allowed only once no write made under it is in flight.
        self.gives_back = True
        # Whether the Lease had no holder when it was taken: no request of an earlier leader is in
        # flight.
        self.follows_clean_end = False
        self._client = Client(
            transport, meter=meter, timeout_seconds=options.request_timeout_seconds
        )
        self._options = options
        self._clock = clock
        self._now = now
        self._rng = rng
        self._meter = meter
        self._open_until = NEVER
        # The Lease after our last write; None if another process may have written it since.
        self._own: Lease | None = None
        self._has_written = False
        self._fault = ""
        self._seen_version = ""
        self._rival = ""
        self._rival_until = NEVER

    @property
    def lease(self) -> ObjectReference:
        """Return a reference to the Lease, with its uid if it was seen."""
        key = self._options.key
        own = (
            self._own.metadata if self._own else ObjectMeta(namespace=key.namespace, name=key.name)
        )
        return reference_to(LEASES, own)

    @property
    def identity(self) -> str:
        return self._options.identity

    @property
    def is_leading(self) -> bool:
        return self._clock() < self._open_until

    def fence(self) -> None:
        """Raise NotLeadingError once no write may start any more."""
        if not self.is_leading:
            raise NotLeadingError(
                f"lease {self._options.key}: not held by {self._options.identity} any more: "
                "no write may start"
            )

    async def run(self) -> None:
        """Run until LeadershipLostError or cancellation; cancellation releases the Lease.

        All writers under the fence must have ended before it is cancelled.
        """
        self._report(is_leading=False)
        self._meter.count("lease_failures_total", 0, lease=self._options.key.name)
        try:
            await self._acquire()
            await self._keep()
        except asyncio.CancelledError:
            self._shut()
            if self.gives_back:
                await self._release()
            raise
        finally:
            self._shut()

    async def _acquire(self) -> None:
        while True:
            open_until = await self._attempt(self._options.attempt_timeout_seconds)
            if self._clock() < open_until:
                break
            await asyncio.sleep(self._jittered_period())
        self._open_until = open_until
        self._report(is_leading=True)
        self.leading.set()
        log.info("leading", lease=str(self._options.key), identity=self._options.identity)

    async def _keep(self) -> None:
        """Renew until leadership is lost. The old deadline decides, even over a late answer."""
        taken = 0.0
        while True:
            pause = max(self._jittered_period() - taken, SHORTEST_PAUSE_SECONDS)
            await asyncio.sleep(min(pause, self._left() + JUST_AFTER_SECONDS))
            started, open_until = self._clock(), NEVER
            if self.is_leading:
                limit = min(self._options.attempt_timeout_seconds, self._left())
                open_until = await self._attempt(limit)
            taken = self._clock() - started
            if not self.is_leading:
                raise self._lost(
                    f"not renewed in time: {self._fault or 'the process was held up'}"
                )
            if self._rival:
                raise self._lost(f"held by {self._rival}")
            self._open_until = max(self._open_until, open_until)

    async def _attempt(self, limit_seconds: float) -> float:
        """Return the time until which the fence may be open.

        It is NEVER after a failure or during the term of a rival.
        """
        try:
            async with asyncio.timeout(limit_seconds):
                return await self._take()
        except (KubeError, TimeoutError) as error:
            self._own = None
            self._fault = str(error) or f"no answer within {limit_seconds:.1f} s"
            self._meter.count("lease_failures_total", lease=self._options.key.name)
            log.warning("lease not written", lease=str(self._options.key), error=self._fault)
            return NEVER

    async def _take(self) -> float:
        lease = self._own or await self._read()
        started = self._clock()
        if started < self._rival_until:
            return NEVER
        if not self.leading.is_set():
            is_free = lease is None or not lease.spec.holderIdentity
            self.follows_clean_end = is_free and not self._rival
        self._has_written = True
        self._own = await (self._create() if lease is None else self._renew(lease))
        self._fault = ""
        self._observe(self._own)
        return started + self._options.renew_deadline_seconds

    async def _read(self) -> Lease | None:
        """Read the Lease. A rival whose Lease was deleted keeps its term."""
        try:
            lease = await self._client.get(LEASES, self._options.key)
        except NotFoundError:
            return None
        self._observe(lease)
        return lease

    def _observe(self, lease: Lease) -> None:
        if lease.metadata.resourceVersion == self._seen_version:
            return
        self._seen_version = lease.metadata.resourceVersion
        holder, known = lease.spec.holderIdentity, self._rival
        self._rival = "" if holder == self._options.identity else holder
        promised = max(self._options.lease_duration_seconds, lease.spec.leaseDurationSeconds)
        self._rival_until = self._clock() + promised if self._rival else NEVER
        if self._rival not in {"", known}:
            log.info("lease held elsewhere", lease=str(self._options.key), holder=holder)

    async def _create(self) -> Lease:
        key = self._options.key
        body: JsonObject = {
            "apiVersion": LEASES.api_version,
            "kind": LEASES.kind,
            "metadata": {"namespace": key.namespace, "name": key.name},
            "spec": self._spec(acquired=True, transitions=0),
        }
        return await self._client.create(LEASES, body, namespace=key.namespace)

    async def _renew(self, lease: Lease) -> Lease:
        is_ours = lease.spec.holderIdentity == self._options.identity
        transitions = lease.spec.leaseTransitions + (0 if is_ours else 1)
        return await self._patch(lease, self._spec(acquired=not is_ours, transitions=transitions))

    async def _patch(self, lease: Lease, spec: JsonObject) -> Lease:
        return await self._client.patch(
            LEASES,
            self._options.key,
            {"spec": spec},
            resource_version=lease.metadata.resourceVersion,
        )

    def _spec(self, *, acquired: bool, transitions: int) -> JsonObject:
        moment = rfc3339_micro(self._now())
        spec: JsonObject = {
            "holderIdentity": self._options.identity,
            "leaseDurationSeconds": math.ceil(self._options.lease_duration_seconds),
            "leaseTransitions": transitions,
            "renewTime": moment,
        }
        return {**spec, "acquireTime": moment} if acquired else spec

    async def _release(self) -> None:
        """Release the Lease. If an earlier write of ours was in flight, read and try once more."""
        if not self._has_written:
            return
        try:
            async with asyncio.timeout(self._options.request_timeout_seconds):
                try:
                    await self._give_back()
                except ConflictError:
                    self._own = None
                    await self._give_back()
        except (KubeError, TimeoutError) as error:
            log.warning("lease not released", lease=str(self._options.key), error=str(error))

    async def _give_back(self) -> None:
        lease = self._own or await self._read()
        if lease is None or lease.spec.holderIdentity != self._options.identity:
            return
        released: JsonObject = {
            "holderIdentity": None,
            "leaseDurationSeconds": RELEASED_DURATION_SECONDS,
            "renewTime": rfc3339_micro(self._now()),
        }
        await self._patch(lease, released)
        log.info("lease released", lease=str(self._options.key))

    def _lost(self, reason: str) -> LeadershipLostError:
        return LeadershipLostError(f"lease {self._options.key}: {reason}")

    def _shut(self) -> None:
        self._open_until = NEVER
        self.leading.clear()
        self._report(is_leading=False)

    def _report(self, *, is_leading: bool) -> None:
        self._meter.gauge("lease_leading", float(is_leading), lease=self._options.key.name)

    def _left(self) -> float:
        return self._open_until - self._clock()

    def _jittered_period(self) -> float:
        return self._options.retry_period_seconds * self._rng.uniform(1 - JITTER, 1 + JITTER)
