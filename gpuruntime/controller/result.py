"""What a reconcile answers when nothing went wrong."""

from typing import Final

import attrs


@attrs.frozen(slots=True)
class Result:
    """Without a time the key rests until its next event; with one an event may still be sooner."""

    requeue_after_seconds: float | None = None

    @classmethod
    def earliest(cls, *seconds: float | None) -> "Result":
        """After the shortest of the times that there are."""
        return cls(min((each for each in seconds if each is not None), default=None))


DONE: Final = Result()
