"""The open connections of one replica, by unit: limits, revocation and activity.

A connection ends with its unit, its ticket's time or its revocation. The event of the watch ends
it in the same step.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from enum import StrEnum
from typing import Final

import attrs
import structlog

from gpuruntime.concurrency.clock import loop_time
from gpuruntime.gateway.errors import Code, GatewayError
from gpuruntime.gateway.gate import UNKNOWN_AFTER_SECONDS, Visitor
from gpuruntime.meter import Meter
from gpuruntime.models.kinds import provenance
from gpuruntime.models.kinds.units import GPUUnit
from gpuruntime.models.kubernetes.metadata import Key

SWEEP_SECONDS: Final = 10.0

log = structlog.get_logger()


class ConnectionKind(StrEnum):
    """The kinds of connections; those of `OF_CONTAINER` run a program in the unit."""

    HTTP = "http"
    WEBSOCKET = "websocket"
    EXEC = "exec"
    FORWARD = "forward"
    SSH = "ssh"


OF_CONTAINER: Final = frozenset({ConnectionKind.EXEC, ConnectionKind.SSH})


class End(StrEnum):
    """Why the gateway ends a connection."""

    EXPIRED = "expired"
    UNIT_GONE = "unit_gone"
    REVOKED = "revoked"
    SUSPENDED = "suspended"
    UNKNOWN = "unknown"
    STOPPING = "stopping"


@attrs.frozen(kw_only=True, slots=True)
class ConnectionOptions:
    """Limits on the connections of one replica.

    `grace_seconds` is how long a connection may outlive its ticket. If `ends_unknown`, it ends
    when the cluster has been silent for a minute.
    """

    all: int
    per_unit: int
    per_ticket: int
    exec_per_unit: int
    grace_seconds: float
    ends_unknown: bool


class Connection:
    """An open connection. `ended` gets its result when the connection has to end."""

    def __init__(self, visitor: Visitor, kind: ConnectionKind, activity: "Activity") -> None:
        self.visitor = visitor
        self.kind = kind
        self.ended: asyncio.Future[End] = asyncio.get_running_loop().create_future()
        self._activity = activity

    def touch(self) -> None:
        """Record bytes from the caller; what the unit says alone is no activity."""
        if self.ended.done():
            return
        self._activity.last[self.visitor.uid] = loop_time()

    def end(self, reason: End) -> None:
        if not self.ended.done():
            self.ended.set_result(reason)


@attrs.frozen(slots=True)
class Activity:
    """The loop time of the last bytes from callers, by the uid of each unit."""

    last: dict[str, float] = attrs.field(factory=dict)


class Connections:
    def __init__(
        self,
        options: ConnectionOptions,
        *,
        now: Callable[[], datetime],
        watch_age: Callable[[], float],
        meter: Meter,
    ) -> None:
        self._options = options
        self._now = now
        self._watch_age = watch_age
        self._meter = meter
        self._open: dict[str, set[Connection]] = {}
        self._count = 0
        # By uid and id: the same key of SSH has the same id at each unit.
        self._tickets: Counter[tuple[str, str]] = Counter()
        self._activity = Activity()
        self._empty = asyncio.Event()
        self._empty.set()
        self._is_stopping = False

    def __len__(self) -> int:
        return self._count

    @contextmanager
    def open(self, visitor: Visitor, kind: ConnectionKind) -> Iterator[Connection]:
        """Hold a connection while the context is open. Raise GatewayError at a limit."""
        self._demand_room(visitor, kind)
        connection = Connection(visitor, kind, self._activity)
        timer = self._expiry_of(connection)
        self._add(connection)
        connection.touch()
        try:
            yield connection
        finally:
            timer.cancel()
            self._remove(connection)
            connection.ended.cancel()

    def unit_changed(self, _: Key, old: GPUUnit | None, new: GPUUnit | None) -> None:
        """End what the change revokes. The mirror of units calls it at each event."""
        if old is not None and (new is None or new.metadata.uid != old.metadata.uid):
            self._end_all(old.metadata.uid, End.UNIT_GONE)
            self._activity.last.pop(old.metadata.uid, None)
        if new is None:
            return
        for connection in tuple(self._open.get(new.metadata.uid, ())):
            if reason := end_of(connection.visitor, new):
                connection.end(reason)

    async def run(self) -> None:
        """End what has expired by the wall clock, and what may be revoked unknown to us."""
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            self.sweep()

    def sweep(self) -> None:
        # The next sweep would be too late for connections that may be open for a minute.
        is_unknown = self._watch_age() + SWEEP_SECONDS > UNKNOWN_AFTER_SECONDS
        latest = self._now().timestamp() - self._options.grace_seconds
        for connection in self._all():
            if connection.visitor.claims.exp <= latest:
                connection.end(End.EXPIRED)
            elif is_unknown and self._options.ends_unknown:
                connection.end(End.UNKNOWN)

    async def drain(self) -> None:
        """Open nothing more. Return when no connection is left."""
        self._is_stopping = True
        await self._empty.wait()

    def end_all(self, reason: End) -> None:
        for connection in self._all():
            connection.end(reason)

    def activity(self) -> Mapping[str, tuple[float, int]]:
        """Return by uid the loop time of the last bytes, and the number of open connections."""
        return {
            uid: (last, len(self._open.get(uid, ()))) for uid, last in self._activity.last.items()
        }

    def open_by_kind(self) -> Mapping[tuple[str, ...], float]:
        found = Counter(connection.kind for connection in self._all())
        return {(kind,): float(found[kind]) for kind in ConnectionKind}

    def _demand_room(self, visitor: Visitor, kind: ConnectionKind) -> None:
        if self._is_stopping:
            raise GatewayError(Code.SERVICE_UNAVAILABLE, "this replica is stopping: connect again")
        options, of_unit = self._options, self._open.get(visitor.uid, set())
        in_container = sum(each.kind in OF_CONTAINER for each in of_unit)
        limits = (
            ("all", self._count, options.all),
            ("perUnit", len(of_unit), options.per_unit),
            ("perTicket", self._tickets[_ticket_of(visitor)], options.per_ticket),
            ("execPerUnit", in_container if kind in OF_CONTAINER else -1, options.exec_per_unit),
        )
        for name, count, most in limits:
            if count >= most:
                raise GatewayError(
                    Code.TOO_MANY_CONNECTIONS,
                    f"{most} connections are open, as many as {name} allows: end some of them",
                )

    def _expiry_of(self, connection: Connection) -> asyncio.TimerHandle:
        remaining = connection.visitor.claims.exp - self._now().timestamp()
        delay = max(0.0, remaining + self._options.grace_seconds)
        return asyncio.get_running_loop().call_later(delay, connection.end, End.EXPIRED)

    def _add(self, connection: Connection) -> None:
        self._open.setdefault(connection.visitor.uid, set()).add(connection)
        self._tickets[_ticket_of(connection.visitor)] += 1
        self._count += 1
        self._empty.clear()

    def _remove(self, connection: Connection) -> None:
        uid, ticket = connection.visitor.uid, _ticket_of(connection.visitor)
        self._open[uid].remove(connection)
        if not self._open[uid]:
            del self._open[uid]
        self._tickets[ticket] -= 1
        if not self._tickets[ticket]:
            del self._tickets[ticket]
        self._count -= 1
        if self._count == 0:
            self._empty.set()

    def _end_all(self, uid: str, reason: End) -> None:
        for connection in tuple(self._open.get(uid, ())):
            connection.end(reason)

    def _all(self) -> Iterator[Connection]:
        return (each for of_unit in tuple(self._open.values()) for each in tuple(of_unit))


def _ticket_of(visitor: Visitor) -> tuple[str, str]:
    return visitor.uid, visitor.claims.jti


def end_of(visitor: Visitor, unit: GPUUnit) -> End | None:
    """Return why the visitor's connections end as the unit is now, or None if they stay."""
    if provenance.is_terminating(unit):
        return End.UNIT_GONE
    if unit.spec.access.generation > visitor.claims.gen:
        return End.REVOKED
    return End.SUSPENDED if unit.spec.suspended else None
