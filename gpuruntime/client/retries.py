"""Whether a request is sent again, and when: decided from what is certain, without a clock."""

from enum import StrEnum
from typing import Final

from gpuruntime.client.errors import Certainty, ClientError, DeadlineError

FIRST_PAUSE_SECONDS: Final = 0.2
LONGEST_PAUSE_SECONDS: Final = 10.0


class Repeat(StrEnum):
    """When the same request may be sent once more."""

    # Reads, and what carries an id of its own: it is done once however often it comes.
    ALWAYS = "always"
    # What waits for its answer and has an id: a deadline that has passed is an answer to it.
    UNANSWERED = "unanswered"
    # What would do something else the second time: only when nothing was done.
    UNDONE = "undone"
    # What cannot be sent a second time, as its body is used up.
    NEVER = "never"


def may_repeat(repeat: Repeat, error: ClientError) -> bool:
    match error.certainty:
        case Certainty.ANSWERED:
            return False
        case Certainty.NOTHING_DONE:
            return repeat is not Repeat.NEVER
        case Certainty.UNKNOWN:
            is_answer = isinstance(error, DeadlineError)
            return repeat is Repeat.ALWAYS or (repeat is Repeat.UNANSWERED and not is_answer)


def pause_seconds(attempt: int, *, asked_seconds: float | None, fraction: float) -> float:
    """After the attempt of this number, the first being 1: never less than the server asked for.

    Between half and all of a pause that doubles, so that callers who failed together spread.
    """
    longest = min(LONGEST_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2.0 ** (attempt - 1))
    return max(asked_seconds or 0.0, longest * (0.5 + fraction / 2))
