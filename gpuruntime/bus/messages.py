"""What travels over the bus, field by field. A reader skips what it does not know.

Times are aware. A payload or a body stays the JSON bytes that it came as.
"""

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Final, TypeAlias, TypeVar

import attrs
import msgspec

from gpuruntime.bus.errors import MalformedMessageError
from gpuruntime.bus.names import is_invocation_id
from gpuruntime.models.encoding.codec import MalformedObjectError, decode
from gpuruntime.models.kinds.invocations import FailureClass, Mode, State

VERSION: Final = "v1"
NULL: Final = msgspec.Raw(b"null")
Moment: TypeAlias = Annotated[datetime, msgspec.Meta(tz=True)]
Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0)]
# Said of an invocation that nobody ever took.
NEVER_TAKEN: Final = (
    "no worker took it before its deadline: status.serverless of its function says what is missing"
)
T = TypeVar("T")

_encoder = msgspec.json.Encoder()


class WorkerState(StrEnum):
    """`starting` while the framework does not say that it can take calls."""

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

    `declarer` is the uid of the unit that declared the function then, and `tenant` that unit's;
    an older version says neither.
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
    requestHash: str = ""
    series: Count = 1
    revision: Annotated[int, msgspec.Meta(ge=1)]
    acceptedAt: Moment
    deadlineAt: Moment


@attrs.frozen(kw_only=True, slots=True)
class Record:
    """The truth about an invocation, in one message of the state stream.

    `series` counts the redrives, `attempt` the starts within a series, and `forgiven` those of
    them that do not count when attempts run out. `sequence` is the message that the running
    attempt holds; `token` tells a writer its own write from all others. A body in `bodyParts`
    chunks is null here.
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
    failureClass: FailureClass | None = None
    acceptedAt: Moment
    deadlineAt: Moment
    startedAt: Moment | None = None
    completedAt: Moment | None = None


def expired(record: Record, now: datetime, *, error: str = "") -> Record:
    """What ends an invocation whose deadline has passed, whoever notices it."""
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
    """`invocation` is the message as it came; base64 in `unreadable` where it was no JSON."""

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
    """A worker tells how it stands, every few seconds and at each change of its state.

    `uid` is that of its unit, since a name is used again; empty where the worker was not told.
    `foreign` is how many invocations of another declarer of its function it has met.
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
    """`uid` is that of the one unit whose worker is meant; empty where any of its name may be."""

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
    """One that can be run here: of this version, this function, and with a sane id."""
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
