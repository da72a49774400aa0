"""Faults of runs with functions: activators end, messages are lost, and workers crash.

Runs without functions have none of these faults, and their plans do not depend on this module.
"""

from collections.abc import Iterator
from random import Random
from typing import Final

from tests.proofs.simulation.faults.kinds import (
    ACTIVATORS,
    ALL_WORKERS,
    APIS,
    BROKER,
    FIRST_SECOND,
    FOR_FUNCTIONS,
    LAST_SECOND,
    LEADING_ACTIVATOR,
    RESULTS,
    BrokerFaultKind,
    FaultKind,
    PlannedFault,
)

MOST: Final = 12
# The processes that have a session with the broker.
SESSIONS: Final = (*APIS, *FOR_FUNCTIONS, ALL_WORKERS)
PROCESSES_AND_BROKER: Final = (*SESSIONS, BROKER)
# Parts of the subjects of messages that are lost or late.
SUBJECT_PARTS: Final = (
    "$JS.ACK.",
    ".state.",
    ".invoke.",
    ".control.",
    ".wake.",
    "STREAM.INFO",
    "STREAM.MSG",
    "CONSUMER.CREATE",
    "CONSUMER.MSG.NEXT",
    "DIRECT.GET",
)
MESSAGES: Final = (
    BrokerFaultKind.REQUEST_LOST,
    BrokerFaultKind.REPLY_LOST,
    BrokerFaultKind.REPLY_LOST,
    BrokerFaultKind.REQUEST_LATE,
)
OUTAGES: Final = (
    (BrokerFaultKind.SESSION_LOST, (0.0, 0.0)),
    (BrokerFaultKind.BROKER_AWAY, (1.0, 40.0)),
    (BrokerFaultKind.BROKER_SILENT, (1.0, 60.0)),
)


def function_faults(seed: int) -> Iterator[PlannedFault]:
    rng = Random(f"{seed} function faults")
    for make in (_message, _message, _outage, _worker, _end):
        for _ in range(rng.randint(0, MOST // 3)):
            yield make(rng)
    if rng.random() < 0.5:
        yield PlannedFault(at=_moment(rng), process=BROKER, kind=BrokerFaultKind.CONSUMER_DELETED)


def _message(rng: Random) -> PlannedFault:
    kind = rng.choice(MESSAGES)
    seconds = rng.uniform(0.5, 30.0) if kind is BrokerFaultKind.REQUEST_LATE else 0.0
    return PlannedFault(
        at=_moment(rng),
        process=rng.choice(SESSIONS),
        kind=kind,
        aim=rng.choice(SUBJECT_PARTS),
        seconds=seconds,
    )


def _outage(rng: Random) -> PlannedFault:
    kind, seconds = rng.choice(OUTAGES)
    return PlannedFault(
        at=_moment(rng),
        process=rng.choice(PROCESSES_AND_BROKER),
        kind=kind,
        seconds=rng.uniform(*seconds),
    )


def _worker(rng: Random) -> PlannedFault:
    kind = rng.choice((BrokerFaultKind.WORKER_KILLED, BrokerFaultKind.DELIVERY_LOST))
    return PlannedFault(
        at=_moment(rng),
        process=ALL_WORKERS,
        kind=kind,
        aim=".invoke." if kind is BrokerFaultKind.DELIVERY_LOST else "",
        seconds=rng.uniform(1.0, 40.0),
    )


def _end(rng: Random) -> PlannedFault:
    return PlannedFault(
        at=_moment(rng),
        process=rng.choice((*ACTIVATORS, *RESULTS, LEADING_ACTIVATOR)),
        kind=rng.choice((FaultKind.STOP, FaultKind.KILL)),
        seconds=rng.uniform(0.5, 40.0),
    )


def _moment(rng: Random) -> float:
    return rng.uniform(FIRST_SECOND, LAST_SECOND)
