"""Three measures against long pauses of the garbage collector in a process with large stores.

A full collection walks every object that survived the last one, and holds up the event loop
meanwhile. Frozen objects (`gc.freeze`) are not walked. They are still freed when their last
reference ends, but garbage in reference cycles among them stays until the process exits. So
objects are frozen only if most of them are known to be in use:

- `paused_collector`: no collection runs during a list, whose new objects all survive.
  If the list brought many objects, they are frozen at its end.
- `FrozenSurvivors`: the survivors of a long full collection are frozen if it freed little.
  Full collections come sooner than by default, so that each has less to walk.
- `GarbagePauses`: the duration of each collection is measured.
"""

import asyncio
import gc
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

# A pause that brought fewer objects into the youngest generation freezes nothing.
WORTH_FREEZING: Final = 50_000
# Processor time from which a collection counts as long: a fifth of what may hold the loop.
LONG_SECONDS: Final = 0.01
# If survivors outnumber garbage by this factor, few of them are about to become garbage. Garbage
# cycles among frozen objects are never freed.
KEPT_FOR_EACH_FREED: Final = 10
# The number of collections of the middle generation that trigger a full one.
MIDDLE_COLLECTIONS: Final = 3
RECORD_SECONDS: Final = 1.0
_OLDEST: Final = 2

_pauses = 0
_was_enabled = False


@contextmanager
def paused_collector() -> Iterator[None]:
    """Disable the collector; when several pauses overlap, the last one to end enables it again."""
    global _pauses, _was_enabled  # noqa: PLW0603  # there is one collector, and so one count
    if _pauses == 0:
        _was_enabled = gc.isenabled()
        gc.disable()
    _pauses += 1
    try:
        yield
    finally:
        _pauses -= 1
        if _pauses == 0:
            _resume()


def _resume() -> None:
    """Enable the collector, and freeze first if the pause has brought many young objects."""
    if gc.get_count()[0] > WORTH_FREEZING:
        gc.freeze()
    if _was_enabled:
        gc.enable()


def survivor_count() -> int:
    return len(gc.get_objects(generation=_OLDEST))


class FrozenSurvivors:
    """A context that freezes the survivors of long full collections."""

    def __init__(
        self,
        *,
        clock: Callable[[], float] = time.thread_time,
        count: Callable[[], int] = survivor_count,
        freeze: Callable[[], None] = gc.freeze,
    ) -> None:
        self._clock = clock
        self._count = count
        self._freeze = freeze
        self._started = 0.0
        self._thresholds = gc.get_threshold()

    def __enter__(self) -> None:
        self._thresholds = gc.get_threshold()
        gc.set_threshold(*self._thresholds[:_OLDEST], MIDDLE_COLLECTIONS)
        gc.callbacks.append(self.notice)

    def __exit__(self, *_: object) -> None:
        gc.callbacks.remove(self.notice)
        gc.set_threshold(*self._thresholds)

    def notice(self, phase: str, info: dict[str, int]) -> None:
        if info["generation"] != _OLDEST:
            return
        if phase == "start":
            self._started = self._clock()
        elif self._clock() - self._started > LONG_SECONDS and self._has_grown(info["collected"]):
            self._freeze()

    def _has_grown(self, freed: int) -> bool:
        return self._count() >= KEPT_FOR_EACH_FREED * freed


class GarbagePauses:
    """A context that times each collection; `run` hands generation and seconds to `record`.

    A collection may interrupt anything, also `record` itself. Recording from the callback could
    wait forever for a lock that the interrupted code holds.
    """

    def __init__(
        self, record: Callable[[str, float], None], *, clock: Callable[[], float]
    ) -> None:
        self._record = record
        self._clock = clock
        self._started = 0.0
        # The generation and the seconds of each collection that is not yet recorded.
        self._pauses: list[tuple[str, float]] = []

    def __enter__(self) -> "GarbagePauses":
        gc.callbacks.append(self._notice)
        return self

    def __exit__(self, *_: object) -> None:
        gc.callbacks.remove(self._notice)

    async def run(self) -> None:
        while True:
            await asyncio.sleep(RECORD_SECONDS)
            self.flush()

    def flush(self) -> None:
        pauses, self._pauses = self._pauses, []
        for generation, seconds in pauses:
            self._record(generation, seconds)

    def _notice(self, phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            self._started = self._clock()
        else:
            self._pauses.append((str(info["generation"]), self._clock() - self._started))
