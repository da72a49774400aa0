"""Invocations and their records, written as the API writes them."""

from datetime import UTC, datetime, timedelta
from typing import Any

import attrs
import msgspec

from gpuruntime.bus.messages import Invocation, Record, encode
from gpuruntime.bus.records import StoredRecord
from gpuruntime.models.kinds.invocations import State
from gpuruntime.worker.delivery_plan import assumed_record
from tests.rooms.bus.broker import FUNCTION, Bus

NOW = datetime(2026, 1, 1, tzinfo=UTC)
LATER = NOW + timedelta(hours=1)


def invocation(name: str = "one", **changes: object) -> Invocation:
    made = Invocation(
        invocationID=name,
        serverlessRequestID=FUNCTION,
        payload=msgspec.Raw(b'{"n":1}'),
        requestHash="abc",
        revision=7,
        acceptedAt=NOW,
        deadlineAt=LATER,
    )
    return attrs.evolve(made, **changes)  # type: ignore[arg-type]  # whatever the test says


def record(state: State = State.QUEUED, **changes: object) -> Record:
    made = attrs.evolve(assumed_record(invocation()).record, state=state)
    return attrs.evolve(made, **changes)  # type: ignore[arg-type]  # whatever the test says


def stored(state: State = State.QUEUED, revision: int = 7, **changes: object) -> StoredRecord:
    return StoredRecord(record(state, **changes), revision)


async def accept(
    bus: Bus, name: str, *, payload: object = 1, life_seconds: float = 60.0, declarer: str = ""
) -> Invocation:
    """Write the record, then the message, as the protocol requires."""
    sent = await queue(bus, name, payload=payload, life_seconds=life_seconds, declarer=declarer)
    await send(bus, sent, message_id=message_id_of(sent))
    return sent


def message_id_of(sent: Invocation) -> str:
    return f"{FUNCTION}:{sent.invocationID}:{sent.revision}"


async def queue(
    bus: Bus, name: str, *, payload: object, life_seconds: float, declarer: str = ""
) -> Invocation:
    """Return the message to send for a written record."""
    now = datetime.now(UTC)
    accepted = invocation(
        name,
        declarer=declarer,
        payload=msgspec.Raw(msgspec.json.encode(payload)),
        acceptedAt=now,
        deadlineAt=now + timedelta(seconds=life_seconds),
    )
    queued = await bus.records.write(assumed_record(accepted).record, expected=0)
    return attrs.evolve(accepted, revision=queued.revision)


async def send(bus: Bus, sent: Invocation, *, message_id: str) -> None:
    await bus.jetstream.publish(
        bus.names.invoke(FUNCTION), encode(sent), message_id=message_id, ttl_seconds=120
    )


async def turn(made: Bus, name: str, **changes: Any) -> None:
    stored = await made.records.read(FUNCTION, name)
    assert stored is not None
    await made.records.write(attrs.evolve(stored.record, **changes), expected=stored.revision)
