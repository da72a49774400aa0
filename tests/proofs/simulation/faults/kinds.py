"""What can go wrong in a run: the kinds of faults, which requests they hit, and a planned one.

A fault that hits requests is armed at its moment and hits the next request of its kind, after it
has let some pass. Each stands for itself, so that a list without some of them is a plan as well.
"""

from enum import StrEnum
from typing import Final

import attrs

PROCESSES: Final = ("manager-0", "manager-1", "api-0", "api-1")
MANAGERS: Final = PROCESSES[:2]
APIS: Final = PROCESSES[2:]
# Beside them where a script has a function.
ACTIVATORS: Final = ("activator-0", "activator-1")
RESULTS: Final = ("results-0",)
FOR_FUNCTIONS: Final = (*ACTIVATORS, *RESULTS)
# Whoever it is at the fault's moment.
LEADER: Final = "leader"
STANDBY: Final = "standby"
LEADING_ACTIVATOR: Final = "leading activator"
# All of them that there are, and everybody who has a session with the broker.
ALL_WORKERS: Final = "workers"
BROKER: Final = "broker"
# Faults begin once all processes are up, and end in time for a run to come to rest.
FIRST_SECOND: Final = 15.0
LAST_SECOND: Final = 240.0


class FaultKind(StrEnum):
    """Of the first group, one request each; of the second, the whole process for a while."""

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
    LISTS_OF_THE_PAST = "lists-of-the-past"


class BrokerFaultKind(StrEnum):
    """Where a script has a function. Of the first group, one message each."""

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
    """Which requests a fault may hit."""

    WRITE = "write"
    CREATE = "create"
    PATCH = "patch"
    DELETE = "delete"
    READ = "read"
    LIST = "list"
    NEXT_PAGE = "next page"


@attrs.frozen(kw_only=True, slots=True)
class PlannedFault:
    """`seconds` is how long it lasts, how late it is, or how far a clock goes.

    `process` may be a role; `aim` is a text in the path or the body of the request that is hit,
    or in the subject of the message.
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
# What happens to open watches; a partition breaks them off as well.
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
