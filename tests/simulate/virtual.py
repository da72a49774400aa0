"""A loop of its own for a run, in virtual time that begins at zero."""

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import Context
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeVar, TypeVarTuple

import looptime

ResultT = TypeVar("ResultT")
ArgsT = TypeVarTuple("ArgsT")

TICK: Final = 1e-6
BEGINNING: Final = datetime(2026, 1, 1, tzinfo=UTC)


class VirtualLoop(looptime.LoopTimeEventLoop, asyncio.SelectorEventLoop):
    """Nothing comes from outside, so time moves as soon as nobody has anything left to do.

    It does move: no timer goes off in the very instant in which it is set, so that whoever waits
    for the last, lost digit of a float does not wait for ever.
    """

    def call_at(
        self,
        when: float,
        callback: Callable[[*ArgsT], object],
        *args: *ArgsT,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        return super().call_at(max(when, self.time() + TICK), callback, *args, context=context)


def run_virtually(main: Coroutine[Any, Any, ResultT]) -> ResultT:
    loop = VirtualLoop(start=0.0, noop_cycles=0)
    try:
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            return runner.run(main)
    finally:
        asyncio.set_event_loop(None)


def true_time() -> datetime:
    """By a clock that is never wrong: the cluster's own."""
    return BEGINNING + timedelta(seconds=asyncio.get_running_loop().time())
