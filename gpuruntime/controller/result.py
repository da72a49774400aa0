"""What a reconcile answers when nothing went wrong."""

from typing import Final

import attrs


@attrs.frozen(slots=True)
class Result:
    """Without a time the key rests until its next event; with one an event may still be sooner."""

    requeue_after_seconds: float | None = None


DONE: Final = Result()
