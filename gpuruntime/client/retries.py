"""Pure decisions about retries: whether a request is sent again, and after which pause."""

from enum import StrEnum
from typing import Final

from gpuruntime.client.errors import Certainty, ClientError

FIRST_PAUSE_SECONDS: Final = 0.2
LONGEST_PAUSE_SECONDS: Final = 10.0


class Repeat(StrEnum):
    """When the same request may be sent again."""

    # Reads, and requests with an id: the API does them once however often they are sent.
    ALWAYS = "always"
    # Requests that would do something else the second time: only if nothing was done.
    UNDONE = "undone"
    # Requests that cannot be sent twice, as their body is used up.
    NEVER = "never"


def may_repeat(repeat: Repeat, error: ClientError) -> bool:
    match error.certainty:
        case Certainty.ANSWERED:
            return False
        case Certainty.NOTHING_DONE:
            return repeat is not Repeat.NEVER
        case Certainty.UNKNOWN:
            return repeat is Repeat.ALWAYS


def pause_seconds(attempt: int, *, asked_seconds: float | None, fraction: float) -> float:
    """Return the pause after an attempt, counted from 1; never less than the server asked for.

    It lies between half and all of a pause that doubles, so that callers that failed together
    spread.
    """
    longest = min(LONGEST_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2.0 ** (attempt - 1))
    return max(asked_seconds or 0.0, longest * (0.5 + fraction / 2))
