"""Planned faults: their kinds, and the requests that they hit.

A fault for requests is armed at its time. It lets `skip` requests pass and hits the next one.
Faults are independent of each other, so that any part of a plan is a plan as well.
"""

from enum import StrEnum
from typing import Final

import attrs

PROCESSES: Final = ("manager-0", "manager-1", "api-0", "api-1")
MANAGERS: Final = PROCESSES[:2]
APIS: Final = PROCESSES[2:]
# Processes of scripts with a function, in addition to PROCESSES.
ACTIVATORS: Final = ("activator-0", "activator-1")
RESULTS: Final = ("results-0",)
FOR_FUNCTIONS: Final = (*ACTIVATORS, *RESULTS)
# The process that has this role at the time of the fault.
LEADER: Final = "leader"
STANDBY: Final = "standby"
LEADING_ACTIVATOR: Final = "leading activator"
# All running workers, and all processes that have a session with the broker.
ALL_WORKERS: Final = "workers"
BROKER: Final = "broker"
# Faults begin when all processes are up, and end early enough for the run to converge.
FIRST_SECOND: Final = 15.0
LAST_SECOND: Final = 240.0


class FaultKind(StrEnum):
    """Kinds of faults: the first group hits one request, the second affects a process."""

    CONFLICT = "conflict"
    THROTTLED = "throttled"
    REFUSED_500 = "refused-500"
    REFUSED_503 = "refused-503"
    UNREACHABLE = "unreachable"
    DROPPED = "dropped"
    ANSWER_LOST = "answer-lost"
    ANSWER_500 = "answer-500"
    ANSWER_GARBLED = "answer-garbled"
    LANDS_LATE = "lands-late"
    SLOW_BEFORE = "slow-before"
    SLOW_AFTER = "slow-after"
    CRASH_BEFORE = "crash-before"
    CRASH_SENT = "crash-sent"
    CRASH_AFTER = "crash-after"
    PAGE_EXPIRED = "page-expired"

    WATCHES_RESET = "watches-reset"
    WATCHES_GONE = "watches-gone"
    WATCHES_SILENT = "watches-silent"
    WATCHES_LATE = "watches-late"
    WATCHES_TORN = "watches-torn"
    WATCHES_REFUSED = "watches-refused"
    HISTORY_LOST = "history-lost"
    PARTITION = "partition"
    LEASE_OUTAGE = "lease-outage"
    CLOCK_JUMP = "clock-jump"
    STOP = "stop"
    KILL = "kill"
    OLD_LISTS = "lists-of-the-past"


class BrokerFaultKind(StrEnum):
    """Kinds of faults of scripts with a function. The first group hits one message each."""

    REQUEST_LOST = "request-lost"
    REQUEST_LATE = "request-late"
    REPLY_LOST = "reply-lost"
    DELIVERY_LOST = "delivery-lost"

    SESSION_LOST = "session-lost"
    BROKER_AWAY = "broker-away"
    BROKER_SILENT = "broker-silent"
    CONSUMER_DELETED = "consumer-deleted"
    WORKER_KILLED = "worker-killed"


class Target(StrEnum):
    """The requests that a fault may hit."""

    WRITE = "write"
    CREATE = "create"
    PATCH = "patch"
    DELETE = "delete"
    READ = "read"
    LIST = "list"
    NEXT_PAGE = "next page"


@attrs.frozen(kw_only=True, slots=True)
class PlannedFault:
    """A fault of a plan. `seconds` is its duration, its delay, or the offset of a clock.

    `process` may be a role. `aim` is a text in the path or body of the request that is hit, or in
    the subject of the message.
    """

    at: float
    process: str
    kind: FaultKind | BrokerFaultKind
    target: Target | None = None
    skip: int = 0
    seconds: float = 0.0
    aim: str = ""

    def __str__(self) -> str:
        aim = f" with {self.aim}" if self.aim else ""
        what = f" {self.target}{aim} after {self.skip}" if self.target else aim
        lasting = f" {self.seconds:.2f} s" if self.seconds else ""
        return f"{self.at:7.2f}  {self.process:<10} {self.kind}{what}{lasting}"


REQUEST_KINDS: Final = tuple(FaultKind)[: tuple(FaultKind).index(FaultKind.WATCHES_RESET)]
# Kinds that affect open watches; a partition breaks them, too.
WATCH_KINDS: Final = {
    FaultKind.WATCHES_RESET,
    FaultKind.WATCHES_GONE,
    FaultKind.WATCHES_SILENT,
    FaultKind.WATCHES_LATE,
    FaultKind.WATCHES_TORN,
    FaultKind.WATCHES_REFUSED,
    FaultKind.HISTORY_LOST,
    FaultKind.PARTITION,
}
