"""What workers last told of themselves, and when it was heard."""

import attrs
import structlog

from gpuruntime.bus.errors import BadNameError, MalformedMessageError
from gpuruntime.bus.message import Message
from gpuruntime.bus.messages import Beat, WorkerState, read
from gpuruntime.bus.names import Names

log = structlog.get_logger()


@attrs.frozen(kw_only=True, slots=True)
class Heard:
    """`at` is loop time."""

    state: WorkerState
    busy: int
    at: float


class Beats:
    """By function and worker. The subject says whose a beat is, since rights are on subjects."""

    def __init__(self, names: Names) -> None:
        self._names = names
        self._heard: dict[tuple[str, str], Heard] = {}

    def hear(self, message: Message, *, at: float) -> tuple[str, str] | None:
        """Whose beat told a state that is another one than before; None for any other."""
        try:
            whose = self._names.beat_of(message.subject)
            beat = read(message.data, Beat)
        except (BadNameError, MalformedMessageError) as error:
            log.warning("beat dropped", subject=message.subject[:200], reason=str(error))
            return None
        before = self._heard.get(whose)
        self._heard[whose] = Heard(state=beat.state, busy=beat.busy, at=at)
        return whose if before is None or before.state is not beat.state else None

    def of(self, function: str, worker: str) -> Heard | None:
        return self._heard.get((function, worker))

    def forget(self, function: str, worker: str) -> None:
        self._heard.pop((function, worker), None)
