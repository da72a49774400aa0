"""The story of a function: declared, called, left alone, changed, put to sleep, deleted."""

from enum import StrEnum
from random import Random
from typing import Any, Final

import attrs

SERVED: Final = "served"
# How many of the scripts have one: what is played beside it costs as much again.
SHARE: Final = 0.2


class FunctionStep(StrEnum):
    BURST = "many calls at once"
    CALL = "a call that is waited for"
    REFUSE = "a call that the function refuses"
    IDLE = "nobody calls until the workers are gone"
    SLEEP = "suspended, called, and resumed"
    IMAGE = "another image"


class Fate(StrEnum):
    """The state in which a call ends: refused by the function, or without one."""

    ANSWERED = "succeeded"
    REFUSED = "dead_lettered"
    ORPHANED = "failed"


@attrs.frozen(kw_only=True, slots=True)
class Call:
    """What the function is told to do: take so long, and fail so many attempts before."""

    name: str
    seconds: float
    fails: int = 0
    fate: Fate = Fate.ANSWERED

    @property
    def payload(self) -> dict[str, Any]:
        is_refused = self.fate is Fate.REFUSED
        return {"seconds": self.seconds, "fails": self.fails, "isRefused": is_refused}


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

    @property
    def operation(self) -> str:
        return f"function-{self.name}"

    @property
    def pool(self) -> str:
        return f"{SERVED}-pool"


def functions_of(rng: Random, *, earliest: float) -> tuple[FunctionStory, ...]:
    return (_function(rng, earliest),) if rng.random() < SHARE else ()


def _function(rng: Random, earliest: float) -> FunctionStory:
    maximum = rng.randint(1, 3)
    chosen = rng.sample(tuple(FunctionStep), rng.randint(2, 4))
    steps = [(FunctionStep.BURST, _calls(rng, 0))]
    steps += [(step, _calls(rng, number)) for number, step in enumerate(chosen, start=1)]
    return FunctionStory(
        begins_at=rng.uniform(earliest, earliest + 30.0),
        name="fn",
        minimum=rng.randint(0, min(maximum, 2)),
        maximum=maximum,
        concurrency=rng.randint(1, 2),
        idle_seconds=rng.choice((0, 5, 15)),
        steps=tuple(steps),
        is_deleted=rng.random() < 0.5,
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
