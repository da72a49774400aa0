"""The messages of the bus, field by field. A reader ignores unknown fields.

Times have a time zone. A payload or a body keeps the JSON bytes in which it arrived.
"""

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Final, TypeAlias, TypeVar

import attrs
import msgspec

from gpuruntime.bus.errors import MalformedMessageError
from gpuruntime.bus.names import is_invocation_id
from gpuruntime.models.encoding.codec import MalformedObjectError, decode
from gpuruntime.models.kinds.invocations import FailureClass, FunctionError, Mode, State

VERSION: Final = "v1"
NULL: Final = msgspec.Raw(b"null")
Moment: TypeAlias = Annotated[datetime, msgspec.Meta(tz=True)]
Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0)]
# The error of an invocation that no worker ever started.
NEVER_TAKEN: Final = (
    "no worker took it before its deadline: status.serverless of its function says what is missing"
)
T = TypeVar("T")

_encoder = msgspec.json.Encoder()


class WorkerState(StrEnum):
    """A worker is `starting` until its framework reports that it can take calls."""

    STARTING = "starting"
    READY = "ready"
    DRAINING = "draining"
    DRAINED = "drained"


class ControlCommand(StrEnum):
    CANCEL = "cancel"
    DRAIN = "drain"


@attrs.frozen(kw_only=True, slots=True)
class Invocation:
    """`revision` is the sequence of the `queued` record that this message was published for.

    `timeoutSeconds` bounds one attempt; 0 leaves that to the function.
    `declarer` is the uid of the unit that declared the function then, and `tenant` is the tenant
    of that unit. Messages of an older version have neither.
    """

    version: str = VERSION
    invocationID: str
    serverlessRequestID: str
    declarer: str = ""
    tenant: str = ""
    mode: Mode = Mode.ASYNC
    contentType: str = "application/json"
    headers: dict[str, str] = attrs.field(factory=dict)
    attributes: dict[str, str] = attrs.field(factory=dict)
    payload: msgspec.Raw = NULL
    timeoutSeconds: Count = 0
    requestHash: str = ""
    series: Count = 1
    revision: Annotated[int, msgspec.Meta(ge=1)]
    acceptedAt: Moment
    deadlineAt: Moment


@attrs.frozen(kw_only=True, slots=True)
class Record:
    """The authoritative state of an invocation, kept in one message of the state stream.

    `series` counts the redrives, and `attempt` the starts within a series. `forgiven` counts the
    starts that do not use up the attempt limit. `sequence` is the message that the running attempt
    holds. By `token` a writer recognises its own write. If `bodyParts` is not 0, the body is in
    that many chunks and is null here. `error` says why the last attempt failed, and `raised` what
    the function itself reported then.
    """

    version: str = VERSION
    invocationID: str
    serverlessRequestID: str
    declarer: str = ""
    tenant: str = ""
    state: State
    mode: Mode = Mode.ASYNC
    requestHash: str = ""
    series: Count = 1
    attempt: Count = 0
    forgiven: Count = 0
    sequence: Count = 0
    token: str = ""
    workerName: str = ""
    statusCode: int | None = None
    contentType: str = ""
    headers: dict[str, str] = attrs.field(factory=dict)
    body: msgspec.Raw = NULL
    bodyParts: Count = 0
    error: str = ""
    raised: FunctionError | None = None
    failureClass: FailureClass | None = None
    acceptedAt: Moment
    deadlineAt: Moment
    startedAt: Moment | None = None
    completedAt: Moment | None = None


def expired(record: Record, now: datetime, *, error: str = "") -> Record:
    """Return the record of an invocation whose deadline has passed; all who expire it use this."""
    why = "the deadline has passed" if record.attempt else NEVER_TAKEN
    return attrs.evolve(
        record,
        state=State.EXPIRED,
        failureClass=FailureClass.EXPIRED,
        error=error or record.error or why,
        completedAt=now,
    )


@attrs.frozen(kw_only=True, slots=True)
class DeadLetter:
    """`invocation` is the original message; if it is not JSON, its bytes are in `unreadable`."""

    version: str = VERSION
    deadLetterID: str
    serverlessRequestID: str
    invocationID: str = ""
    series: Count = 1
    attempt: Count = 0
    failureClass: FailureClass
    error: str = ""
    invocation: msgspec.Raw = NULL
    unreadable: bytes = b""
    deadAt: Moment


@attrs.frozen(kw_only=True, slots=True)
class Heartbeat:
    """A worker reports its state every few seconds and at each change.

    `uid` is the uid of its unit, because names are reused; it is empty if the worker does not know
    it. `foreign` is how many invocations of other declarers of its function the worker has met.
    """

    version: str = VERSION
    workerName: str
    uid: str = ""
    serverlessRequestID: str
    state: WorkerState
    busy: Count = 0
    foreign: Count = 0
    concurrency: Count = 1
    reason: str = ""


@attrs.frozen(kw_only=True, slots=True)
class Control:
    """`uid` selects the unit whose worker must obey; if empty, any unit of that name obeys."""

    version: str = VERSION
    order: ControlCommand
    invocationID: str = ""
    uid: str = ""


def encode(message: Invocation | Record | DeadLetter | Heartbeat | Control) -> bytes:
    return _encoder.encode(message)


def read(data: bytes, kind: type[T]) -> T:
    try:
        return decode(data, kind)
    except MalformedObjectError as error:
        raise MalformedMessageError(str(error)) from error


def read_invocation(data: bytes, *, function: str) -> Invocation:
    """Return the invocation, or raise MalformedMessageError if it cannot run here.

    Its version, its function and the form of its id must match.
    """
    invocation = read(data, Invocation)
    if invocation.version != VERSION:
        raise MalformedMessageError(f"invocation of version {invocation.version[:20]!r}")
    if invocation.serverlessRequestID != function:
        raise MalformedMessageError(
            f"invocation of function {invocation.serverlessRequestID[:80]!r} among {function}'s"
        )
    if not is_invocation_id(invocation.invocationID):
        raise MalformedMessageError(f"invocation with the id {invocation.invocationID[:80]!r}")
    return invocation
