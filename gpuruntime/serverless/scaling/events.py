"""What is told of a function as an Event: that it begins to lack workers, and that it lacks none.

Whatever keeps its unit from being Ready is told by the manager.
"""

from typing import Final

from gpuruntime.kube.event_notes import Note
from gpuruntime.models.kinds.functions import ServerlessStatus
from gpuruntime.serverless.scaling.plan import Shortage

COMPONENT: Final = "gpuruntime-activator"
ENDED: Final = Note("ShortageEnded", "no worker is missing for a reason of that kind any more")
_OF_THE_UNIT: Final = frozenset(
    {"", Shortage.SUSPENDED, Shortage.NO_TEMPLATE, Shortage.INVALID, Shortage.NO_QUEUE}
)


def function_note(
    before: ServerlessStatus | None, after: ServerlessStatus, *, spec_name: str
) -> Note | None:
    """What the step from one status to the next has to tell."""
    old, new = before.reason if before else "", after.reason
    if new == old:
        return None
    if new in _OF_THE_UNIT:
        return None if old in _OF_THE_UNIT or new else ENDED
    return _shortage(new, spec_name)


def _shortage(reason: str, spec_name: str) -> Note:
    match reason:
        case Shortage.CAPACITY:
            words = f"workers are missing: no ready stock of {spec_name} is left"
            return Note("InsufficientCapacity", words, is_warning=True)
        case Shortage.WORKER_FAILED:
            words = "a worker's container fails: until one is ready no further stock is claimed"
            return Note("WorkerFailed", words, is_warning=True)
        case Shortage.WORKER_LOST:
            words = "a worker has no node that takes it, or one that is silent"
            return Note("WorkerLost", words, is_warning=True)
        case _:
            words = f"workers are missing: a claim of stock ended with {reason}"
            return Note("ClaimFailed", words, is_warning=True)
