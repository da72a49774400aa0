"""Pure decisions of the claim protocol: which stock to claim, and what each answer means.

Every step of the protocol that can branch calls one of these functions. So its moves can be read
and tested without a cluster.
"""

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from operator import attrgetter
from typing import Final, TypeAlias, assert_never
from zlib import crc32

import attrs

from gpuruntime.errors import GpuRuntimeError
from gpuruntime.models.kinds import provenance
from gpuruntime.models.kinds.envelopes import Envelope, envelope_of
from gpuruntime.models.kinds.tombstones import Tombstone
from gpuruntime.models.kinds.units import GPUUnit
from gpuruntime.models.kubernetes.metadata import Key
from gpuruntime.operations.errors import (
    InsufficientCapacityError,
    NameTakenError,
    OperationConflictError,
    OperationFinishedError,
    OperationsError,
    UnknownOutcomeError,
)
from gpuruntime.strict.structure import StrictError

_AGE: Final = attrgetter("metadata.creationTimestamp", "metadata.name")
_YOUNG: Final = timedelta(seconds=2)

Failure: TypeAlias = OperationsError | StrictError


@attrs.frozen(kw_only=True, slots=True)
class ClaimRequest:
    """The claim that an attempt wants: for an operation, a unit and some stock.

    Without an envelope, any stock of the specName fits. An attempt recognizes the unit that it
    created itself by `accepted_at`, the moment at which its request was accepted.
    """

    operation_id: str
    request_hash: str
    claimant: Key
    spec_name: str
    image: str = ""
    envelope: Envelope | None = None
    accepted_at: datetime | None = None


@attrs.frozen(kw_only=True, slots=True)
class Claim:
    """A stock unit with our mark, as our own PATCH left it.

    An attempt that re-uses the claim of another attempt does not own it, and so never releases it.
    `sent_at` is the loop time before the PATCH was sent; the create's bound counts from it.
    """

    stock: GPUUnit
    is_owned: bool
    sent_at: float


# States of a stock unit, read after our PATCH was rejected or its answer was lost.


@attrs.frozen(slots=True)
class Won:
    """This very PATCH succeeded; only its answer was lost."""

    stock: GPUUnit


@attrs.frozen(slots=True)
class Reusable:
    """Another attempt of our operation has claimed the stock unit; the claim can be re-stamped."""

    stock: GPUUnit


@attrs.frozen(slots=True)
class StillFree:
    """The stock unit is still free but has changed; claim it at its new version."""

    stock: GPUUnit


@attrs.frozen(slots=True)
class Elsewhere:
    """The stock unit is claimed by another operation, being deleted or gone; try the next."""


Seen: TypeAlias = Won | Reusable | StillFree | Elsewhere


def seen_after_patch(stock: GPUUnit, uid: str, attempt: str, request: ClaimRequest) -> Seen:
    """Return the state of the stock unit after our PATCH.

    Raise OperationConflictError if our operation has claimed it for another request.
    """
    if stock.metadata.uid != uid or provenance.is_terminating(stock):
        return Elsewhere()
    if not provenance.is_claimed(stock):
        return StillFree(stock) if provenance.is_free(stock) else Elsewhere()
    if provenance.attempt_of(stock) == attempt:
        return Won(stock)
    return Reusable(stock) if is_claim_of(stock, request) else Elsewhere()


def is_claim_of(stock: GPUUnit, request: ClaimRequest) -> bool:
    """Return whether the stock unit is claimed for this operation and request.

    Raise OperationConflictError if our operation has claimed it for another request.
    """
    if not provenance.is_claimed(stock) or provenance.is_terminating(stock):
        return False
    if provenance.operation_of(stock) != request.operation_id:
        return False
    if provenance.hash_of(stock) != request.request_hash:
        raise operation_conflict(request.operation_id)
    return True


def in_order(free: Iterable[GPUUnit], request: ClaimRequest) -> list[GPUUnit]:
    """Sort the free stock that fits: stock with the same image first, then the oldest first.

    Both groups are rotated by a hash of the operationID, so that callers spread over the stock. If
    one operation reaches two replicas, both try the same stock unit first. The second then finds
    the claim of its own operation there and does not make another one.
    """
    if request.envelope is not None:
        free = (each for each in free if envelope_of(each.spec) == request.envelope)
    by_age = sorted(free, key=_AGE)
    same = [each for each in by_age if each.spec.image == request.image]
    others = [each for each in by_age if each.spec.image != request.image]
    start = crc32(request.operation_id.encode())
    return [*_rotated(same, start), *_rotated(others, start)]


def _rotated(units: list[GPUUnit], start: int) -> list[GPUUnit]:
    first = start % len(units) if units else 0
    return units[first:] + units[:first]


def is_unsettled(
    listed: Iterable[GPUUnit], unit_of: Callable[[Key], GPUUnit | None], now: datetime
) -> bool:
    """Return whether a claim was made within the last 2 s that will soon be released.

    Such a claim has an operation that holds another claim, or whose unit uses other stock.
    It happens when one request reaches two replicas at once. The stock is about to be free, so it
    is too early to report that none is left.
    """
    young = [each for each in listed if _is_young(each, now)]
    operations = {provenance.operation_of(each) for each in young}
    return len(operations) < len(young) or any(_is_superfluous(each, unit_of) for each in young)


def _is_young(stock: GPUUnit, now: datetime) -> bool:
    moment = provenance.claimed_at(stock)
    return moment is not None and abs(now - moment) < _YOUNG


def _is_superfluous(stock: GPUUnit, unit_of: Callable[[Key], GPUUnit | None]) -> bool:
    claimant = provenance.claimant_of(stock)
    unit = unit_of(claimant) if claimant else None
    return (
        unit is not None
        and provenance.operation_of(unit) == provenance.operation_of(stock)
        and provenance.source_uid_of(unit) != stock.metadata.uid
    )


# Outcomes of the create, and of reading the object that has the unit's name.


@attrs.frozen(slots=True)
class Created:
    unit: GPUUnit


@attrs.frozen(slots=True)
class NameExists:
    """The API server answered AlreadyExists; some unit has the name."""


@attrs.frozen(slots=True)
class Refused:
    """The unit was certainly not created by this request."""

    error: Failure


@attrs.frozen(slots=True)
class AnswerLost:
    """It is unknown whether the unit was created or will be created shortly."""

    error: Failure


@attrs.frozen(slots=True)
class UnitFound:
    """A unit has the name. `lost` is the error of our create if its answer was lost."""

    unit: GPUUnit
    lost: Failure | None


@attrs.frozen(slots=True)
class UnitAbsent:
    """No unit has the name. `lost` is the error of our create if its answer was lost."""

    lost: Failure | None


Outcome: TypeAlias = Created | NameExists | Refused | AnswerLost | UnitFound | UnitAbsent


@attrs.frozen(kw_only=True, slots=True)
class Answer:
    """Answer with the unit. With `releases`, our claim is released, as it is not used."""

    unit: GPUUnit
    is_replay: bool
    releases: bool = False


@attrs.frozen(kw_only=True, slots=True)
class Fail:
    """End the attempt with the error. With `releases`, our claim is released first."""

    error: GpuRuntimeError
    releases: bool = True


@attrs.frozen(kw_only=True, slots=True)
class ReadByName:
    lost: Failure | None = None


@attrs.frozen(slots=True)
class StartOver:
    """The state changed under us: the unit that had the name is gone, or a re-stamp failed."""


Move: TypeAlias = Answer | Fail | ReadByName | StartOver


def ends(tombstone: Tombstone, unit: GPUUnit | None) -> bool:
    """Return whether the tombstone ends the operation of our live unit, or of None.

    A unit that has started carries the operation out, so another unit's tombstone does not end it.
    Before that, the unit may be one that a late create has brought back.
    """
    has_started = unit is not None and unit.status.timeline.createdAt is not None
    return unit is None or not has_started or tombstone.covers(unit)


def after_claim(
    tombstone: Tombstone | GpuRuntimeError | None,
    taken: Claim | Answer | GpuRuntimeError,
    request: ClaimRequest,
) -> Claim | Answer | Fail:
    """Return the move after a new claim was tried while the operation's tombstone was read.

    A tombstone ends the operation, whatever was claimed. Without having read it, an attempt uses
    no claim, answers with no unit and reports no lack of stock: the operation may be finished.
    """
    match tombstone, taken:
        case Tombstone(), _:
            return Fail(error=operation_finished(request.operation_id))
        case GpuRuntimeError() as unread, Claim() | Answer() | InsufficientCapacityError():
            return Fail(error=unread)
        case _, GpuRuntimeError() as error:
            return Fail(error=error)
        case _:
            return taken


def after_create(outcome: Outcome, request: ClaimRequest, stock_uid: str) -> Move:
    """Return the next move. `stock_uid` is our claim's, or empty if the unit takes no stock."""
    match outcome:
        case Created(unit):
            return Answer(unit=unit, is_replay=False)
        case NameExists():
            return ReadByName()
        case Refused(error):
            return Fail(error=error)
        case AnswerLost(error):
            return ReadByName(lost=error)
        case UnitAbsent(lost):
            return StartOver() if lost is None else _unknown(request, lost)
        case UnitFound(unit, lost):
            return _after_reading(unit, lost, request, stock_uid)
        case _:
            assert_never(outcome)


def _after_reading(
    unit: GPUUnit, lost: Failure | None, request: ClaimRequest, stock_uid: str
) -> Move:
    """Return the move after a unit was found under the name.

    If the answer to our create was lost, the create may still succeed. Unless our unit was found,
    the claim is then not released but left to the grace.
    """
    is_ours = provenance.is_of(unit, request.operation_id, request.request_hash)
    if not is_ours and lost is not None:
        return _unknown(request, lost)
    if not is_ours:
        return Fail(error=_occupied(unit, request))
    names_our_stock = provenance.source_uid_of(unit) == stock_uid
    if provenance.is_terminating(unit):
        return Fail(error=operation_finished(request.operation_id), releases=not names_our_stock)
    is_of_this_request = provenance.accepted_at(unit) == request.accepted_at
    return Answer(
        unit=unit,
        is_replay=lost is None or not names_our_stock or not is_of_this_request,
        releases=not names_our_stock,
    )


def _occupied(unit: GPUUnit, request: ClaimRequest) -> OperationsError:
    if provenance.operation_of(unit) == request.operation_id:
        return operation_conflict(request.operation_id)
    return name_taken(unit.metadata.key)


def _unknown(request: ClaimRequest, lost: Failure) -> Fail:
    message = (
        f"unit {request.claimant}: whether it was created is not known ({lost}); "
        f"send operation {request.operation_id} again"
    )
    return Fail(error=UnknownOutcomeError(message), releases=False)


def operation_conflict(operation_id: str) -> OperationConflictError:
    return OperationConflictError(
        f"operation {operation_id} was sent before with another request: use a new operationID"
    )


def operation_finished(operation_id: str) -> OperationFinishedError:
    return OperationFinishedError(
        f"operation {operation_id} is finished, its object was deleted: use a new operationID"
    )


def name_taken(key: Key) -> NameTakenError:
    return NameTakenError(f"{key} belongs to another operation: choose another name")


def function_taken(request_id: str) -> NameTakenError:
    return NameTakenError(
        f"function {request_id} belongs to another unit: choose another requestID"
    )
