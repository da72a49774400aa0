"""The garbage collector keeps out of the way of lists: it would walk each new object in vain."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

# Whatever is frozen stays, garbage as well: only a list that brought many objects is worth it.
WORTH_FREEZING = 50_000

_pauses = 0
_was_enabled = False


@contextmanager
def paused_collector() -> Iterator[None]:
    """Of several at once, in whichever tasks, the last to end turns the collector on again."""
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
    """A paused collector counts on: the youngest generation holds what the pause has brought."""
    if gc.get_count()[0] > WORTH_FREEZING:
        gc.freeze()
    if _was_enabled:
        gc.enable()
