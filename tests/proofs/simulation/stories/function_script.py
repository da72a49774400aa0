"""The story of a function: declared, called, idle, changed, suspended and deleted."""

from enum import Enum, StrEnum
from random import Random
from typing import Any, Final

import attrs

FUNCTION_SPEC: Final = "served"
# The share of scripts with a function; such a run takes half as long again.
SHARE: Final = 0.15


class FunctionStep(StrEnum):
    BURST = "many calls at once"
    CALL = "a call that is waited for"
    REFUSE = "a call that the function refuses"
    IDLE = "nobody calls until the workers are gone"
    SLEEP = "suspended, called, and resumed"
    IMAGE = "another image"
    EXPIRE = "a call that nobody takes in time"
    CANCEL = "a call that is taken back"
    OUTWAIT = "a call that starts after its caller has stopped waiting"


class ExpectedEnd(Enum):
    """The states in which a call may end; a call may be answered before it is affected."""

    ANSWERED = frozenset({"succeeded"})
    REFUSED = frozenset({"dead_lettered"})
    EXPIRED = frozenset({"expired"})
    CANCELLED = frozenset({"cancelled", "succeeded"})
    # Accepted by a replica whose clock is wrong, and cancelled.
    MISDATED = frozenset({"cancelled", "expired", "succeeded"})
    ORPHANED = frozenset({"failed"})
    FUNCTION_DELETED = frozenset({"failed", "succeeded"})


@attrs.frozen(kw_only=True, slots=True)
class Call:
    """A call, with the seconds that it takes and the number of attempts that fail before."""

    name: str
    seconds: float
    fails: int = 0
    expected_end: ExpectedEnd = ExpectedEnd.ANSWERED
    # More than any clock is wrong.
    life_seconds: int = 14_400
    # How long its caller waits if it is synchronous.
    wait_seconds: int = 300

    @property
    def payload(self) -> dict[str, Any]:
        is_refused = self.expected_end is ExpectedEnd.REFUSED
        return {"seconds": self.seconds, "fails": self.fails, "isRefused": is_refused}


# It takes longer than its caller waits.
OUTWAITING: Final = Call(name="call-outwaiting", seconds=10.0, wait_seconds=3)


@attrs.frozen(kw_only=True, slots=True)
class FunctionStory:
    begins_at: float
    name: str
    minimum: int
    maximum: int
    concurrency: int
    idle_seconds: int
    steps: tuple[tuple[FunctionStep, tuple[Call, ...]], ...]
    is_deleted: bool
    # The function is deleted while these calls are in flight.
    last_calls: tuple[Call, ...]
    # Another unit declares the function at once, and is deleted later.
    is_followed: bool

    @property
    def operation(self) -> str:
        return f"function-{self.name}"

    @property
    def successor(self) -> str:
        return f"{self.name}-next"

    @property
    def pool(self) -> str:
        return f"{FUNCTION_SPEC}-pool"


def functions_of(rng: Random, *, earliest: float) -> tuple[FunctionStory, ...]:
    return (_function(rng, earliest),) if rng.random() < SHARE else ()


def _function(rng: Random, earliest: float) -> FunctionStory:
    maximum = rng.randint(1, 3)
    others = [each for each in FunctionStep if each is not FunctionStep.OUTWAIT]
    chosen = rng.sample(others, rng.randint(2, 4))
    steps = [(FunctionStep.BURST, _calls(rng, 0))]
    steps += [(step, _calls(rng, number)) for number, step in enumerate(chosen, start=1)]
    return FunctionStory(
        begins_at=rng.uniform(earliest, earliest + 30.0),
        name="fn",
        minimum=rng.randint(0, min(maximum, 2)),
        maximum=maximum,
        concurrency=rng.randint(1, 2),
        idle_seconds=rng.choice((0, 5, 15)),
        steps=(*steps, (FunctionStep.OUTWAIT, (OUTWAITING,))),
        is_deleted=rng.random() < 0.5,
        last_calls=_calls(rng, len(steps)) if rng.random() < 0.6 else (),
        is_followed=rng.random() < 0.6,
    )


def _calls(rng: Random, step: int) -> tuple[Call, ...]:
    return tuple(
        Call(
            name=f"call-{step}-{number}",
            seconds=round(rng.choice((0.05, 1.0, 12.0)) * rng.random(), 3),
            fails=rng.choice((0, 0, 0, 1, 2)),
        )
        for number in range(rng.randint(1, 5))
    )
