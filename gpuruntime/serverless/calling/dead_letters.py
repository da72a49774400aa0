"""Dead letters: list them, discard them, and redrive them as a new series."""

import re
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

import attrs
import structlog

from gpuruntime.bus import messages
from gpuruntime.bus.batch_reads import Batch, read_batch
from gpuruntime.bus.errors import (
    BusError,
    FullError,
    MalformedMessageError,
    MissingError,
    UnavailableError,
)
from gpuruntime.bus.jetstream import Stored, StoredMessage
from gpuruntime.bus.messages import NULL, DeadLetter, Invocation, Record
from gpuruntime.bus.records import ConflictError, StoredRecord
from gpuruntime.models.kinds.invocations import State
from gpuruntime.operations.lookup.scopes import EVERYTHING, Scope
from gpuruntime.serverless.broker import BrokerLink
from gpuruntime.serverless.calling.acceptance import Acceptance, Accepted
from gpuruntime.serverless.calling.functions import Declared, Functions
from gpuruntime.serverless.errors import (
    DeadLetterNotFoundError,
    InvocationConflictError,
    QueueFullError,
    UnknownOutcomeError,
    bus_translated,
)

log = structlog.get_logger()

_ID = re.compile(r"dl-[0-9a-f]{24}")
LOOKS: Final = 5
# How many bytes of payloads a page reads: they are read with it, then left out.
MOST_PAGE_BYTES: Final = 16 * 1024 * 1024


class _Standing(StrEnum):
    """How far a redrive has come: not begun, a record without a worker, or beyond that."""

    DEAD = "dead"
    WAITING = "waiting"
    BEYOND = "beyond"


class _EndedOtherwiseError(InvocationConflictError):
    """The invocation ended otherwise while its last attempt was being dead-lettered."""


@attrs.frozen(kw_only=True, slots=True)
class StoredLetter:
    letter: DeadLetter
    sequence: int


@attrs.frozen(kw_only=True, slots=True)
class LetterPage:
    """`next` is the sequence after which the next page begins; 0 on the last page."""

    letters: tuple[DeadLetter, ...]
    next: int


class DeadLetters:
    def __init__(
        self,
        queue: BrokerLink,
        functions: Functions,
        acceptance: Acceptance,
        *,
        now: Callable[[], datetime],
        retention_seconds: float,
    ) -> None:
        self._queue = queue
        self._functions = functions
        self._acceptance = acceptance
        self._now = now
        self._retention_seconds = retention_seconds

    async def page(self, *, function: str = "", limit: int, after: int) -> LetterPage:
        """Return a page of dead letters, oldest first, without their payloads.

        If payloads are long, the page is shorter than `limit`, and a next page exists.
        """
        subjects = f"{self._queue.names.prefix}.dlq.{function or '*'}.*"
        letters: tuple[DeadLetter, ...] = ()
        left = 1
        with bus_translated():
            self._queue.demand()
            while left and not letters:
                batch = await self._batch(subjects, after=after, most=limit)
                if not batch.messages:
                    return LetterPage(letters=(), next=0)
                letters, left = tuple(_listed(batch)), batch.left
                after = batch.messages[-1].sequence
        return LetterPage(letters=letters, next=after if left else 0)

    async def discard(self, name: str, scope: Scope = EVERYTHING) -> None:
        with bus_translated():
            self._queue.demand()
            found = await self._find(name, scope)
            try:
                await self._queue.jetstream.delete(self._queue.names.dead_letters, found.sequence)
            except MissingError as error:
                raise _not_found(name) from error

    async def redrive(self, name: str, scope: Scope = EVERYTHING) -> Accepted:
        """Queue the invocation again and delete the letter; until then it can be repeated."""
        with bus_translated():
            self._queue.demand()
            found = await self._find(name, scope)
            dead = _invocation_of(found.letter)
            declared = await self._functions.find(dead.serverlessRequestID)
            dead = _for_declarer(dead, declared)
            try:
                accepted = await self._redrive(found.letter, dead)
            except _EndedOtherwiseError:
                await self._drop(found)
                raise
            await self._drop(found)
        return accepted

    async def _batch(self, subjects: str, *, after: int, most: int) -> Batch:
        return await read_batch(
            self._queue.connection,
            self._queue.names.dead_letters,
            subjects,
            after=after,
            most=most,
            most_bytes=MOST_PAGE_BYTES,
        )

    async def _following(self, subjects: str, after: int) -> StoredMessage | None:
        return await self._queue.jetstream.following(
            self._queue.names.dead_letters, subjects, after=after
        )

    async def _find(self, name: str, scope: Scope) -> StoredLetter:
        if not _ID.fullmatch(name):
            raise _not_found(name)
        found = await self._following(f"{self._queue.names.prefix}.dlq.*.{name}", 0)
        stored = _read(found) if found else None
        if stored is None:
            raise _not_found(name)
        function = stored.letter.serverlessRequestID
        if scope.is_bound and not await self._functions.is_of(scope, function):
            raise _not_found(name)
        return stored

    async def _redrive(self, letter: DeadLetter, dead: Invocation) -> Accepted:
        found = await self._queue.records.read_latest(dead.serverlessRequestID, dead.invocationID)
        for _ in range(LOOKS):
            standing = _standing(found, letter, dead, now=self._now())
            try:
                if found is None or standing is _Standing.DEAD:
                    return await self._begin(letter, dead, found)
                if standing is _Standing.WAITING:
                    return await self._join(found, dead)
            except ConflictError as conflict:
                found = conflict.current
                continue
            record = found.record
            return Accepted(record=record, sequence=record.sequence, is_duplicate=True)
        raise UnknownOutcomeError(
            f"invocation {dead.invocationID} keeps changing: redrive it again"
        )

    async def _begin(
        self, letter: DeadLetter, dead: Invocation, before: StoredRecord | None
    ) -> Accepted:
        """Queue a new series. If the queue is full, restore the record from before."""
        again = _queued_again(dead, letter, now=self._now())
        try:
            queued = await self._queue.records.write(
                again, expected=before.revision if before else 0
            )
        except FullError as error:
            raise _full(dead) from error
        try:
            stored = await self._send(queued, dead)
        except QueueFullError:
            await self._put_back(queued, before)
            raise
        return Accepted(record=queued.record, sequence=stored.sequence, is_duplicate=False)

    async def _join(self, queued: StoredRecord, dead: Invocation) -> Accepted:
        """Send what another redrive has begun, and keep that redrive from restoring the record."""
        stored = await self._send(queued, dead)
        try:
            if not stored.is_duplicate:
                await self._queue.records.write(queued.record, expected=queued.revision)
        except UnavailableError as error:
            raise _unknown(dead, error) from error
        return Accepted(record=queued.record, sequence=stored.sequence, is_duplicate=True)

    async def _send(self, queued: StoredRecord, dead: Invocation) -> Stored:
        record = queued.record
        again = attrs.evolve(
            dead,
            declarer=record.declarer,
            tenant=record.tenant,
            series=record.series,
            revision=queued.revision,
            acceptedAt=record.acceptedAt,
            deadlineAt=record.deadlineAt,
        )
        try:
            return await self._acceptance.send(again)
        except FullError as error:
            raise _full(dead) from error
        except BusError as error:
            raise _unknown(dead, error) from error

    async def _put_back(self, queued: StoredRecord, before: StoredRecord | None) -> None:
        """Restore the record. If that fails, it stays queued, and the next redrive sends it."""
        try:
            if before is None:
                await self._queue.records.delete(queued)
            else:
                await self._queue.records.write(
                    before.record, expected=queued.revision, ttl_seconds=self._retention_seconds
                )
        except BusError as error:
            log.warning(
                "record left queued", invocation=queued.record.invocationID, reason=str(error)
            )

    async def _drop(self, found: StoredLetter) -> None:
        try:
            await self._queue.jetstream.delete(self._queue.names.dead_letters, found.sequence)
        except MissingError:
            return
        except BusError as error:
            log.warning(
                "dead letter left behind", letter=found.letter.deadLetterID, reason=str(error)
            )


def _standing(
    found: StoredRecord | None, letter: DeadLetter, dead: Invocation, *, now: datetime
) -> _Standing:
    """Raise InvocationConflictError if the invocation was replaced or is not dead."""
    if found is None:
        return _Standing.DEAD
    record = found.record
    if record.requestHash != dead.requestHash:
        raise InvocationConflictError(
            f"invocation {record.invocationID} of function {record.serverlessRequestID} is "
            "a later one: discard the dead letter"
        )
    if record.series > letter.series:
        is_unsent = record.series == letter.series + 1 and record.attempt == 0
        if not is_unsent or record.state not in (State.QUEUED, State.EXPIRED):
            return _Standing.BEYOND
        is_alive = record.state is State.QUEUED and now < record.deadlineAt
        return _Standing.WAITING if is_alive else _Standing.DEAD
    if record.state is not State.DEAD_LETTERED:
        told = (
            f"invocation {record.invocationID} of function {record.serverlessRequestID} is "
            f"{record.state}, not dead: "
        )
        if record.state.is_terminal:
            raise _EndedOtherwiseError(f"{told}its dead letter is discarded")
        raise InvocationConflictError(f"{told}discard the dead letter once it has ended")
    return _Standing.DEAD


def _queued_again(dead: Invocation, letter: DeadLetter, *, now: datetime) -> Record:
    """Return the record of a new series, with its former lifetime from now on."""
    life: timedelta = dead.deadlineAt - dead.acceptedAt
    return Record(
        invocationID=dead.invocationID,
        serverlessRequestID=dead.serverlessRequestID,
        declarer=dead.declarer,
        tenant=dead.tenant,
        state=State.QUEUED,
        mode=dead.mode,
        requestHash=dead.requestHash,
        series=letter.series + 1,
        acceptedAt=now,
        deadlineAt=now + life,
    )


def _listed(batch: Batch) -> Iterator[DeadLetter]:
    for found in batch.messages:
        if stored := _read(found):
            yield attrs.evolve(stored.letter, invocation=NULL)


def _read(found: StoredMessage) -> StoredLetter | None:
    """Return the letter, or None if it is malformed or under another letter's subject.

    An empty message is a withdrawn letter.
    """
    if not found.data:
        return None
    try:
        letter = messages.read(found.data, DeadLetter)
    except MalformedMessageError as error:
        log.warning("dead letter skipped", subject=found.subject, reason=str(error))
        return None
    _, _, function, name = found.subject.split(".")
    if (letter.serverlessRequestID, letter.deadLetterID) != (function, name):
        return None
    return StoredLetter(letter=letter, sequence=found.sequence)


def _invocation_of(letter: DeadLetter) -> Invocation:
    try:
        return messages.read_invocation(
            bytes(letter.invocation), function=letter.serverlessRequestID
        )
    except MalformedMessageError as error:
        raise InvocationConflictError(
            f"dead letter {letter.deadLetterID} holds no invocation that could run again: "
            "discard it"
        ) from error


def _for_declarer(dead: Invocation, declared: Declared) -> Invocation:
    """Return the invocation for the present declarer, but never across tenants."""
    if dead.declarer and dead.tenant != declared.tenant:
        raise InvocationConflictError(
            f"invocation {dead.invocationID} was sent to another tenant's function of the name "
            f"{dead.serverlessRequestID}: discard the dead letter"
        )
    return attrs.evolve(dead, declarer=declared.uid, tenant=declared.tenant)


def _full(dead: Invocation) -> QueueFullError:
    return QueueFullError(
        f"the queue of function {dead.serverlessRequestID} is full: redrive it later"
    )


def _unknown(dead: Invocation, error: BusError) -> UnknownOutcomeError:
    return UnknownOutcomeError(
        f"invocation {dead.invocationID} may be queued again or not: redrive it again: {error}"
    )


def _not_found(name: str) -> DeadLetterNotFoundError:
    return DeadLetterNotFoundError(f"dead letter {name} does not exist")
