"""What workers last told of themselves, and when it was heard."""

from collections import defaultdict

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
        self._heard: defaultdict[str, dict[str, Heard]] = defaultdict(dict)

    def hear(self, message: Message, *, at: float) -> tuple[str, str] | None:
        """Whose beat told a state that is another one than before; None for any other."""
        try:
            whose = self._names.beat_of(message.subject)
            beat = read(message.data, Beat)
        except (BadNameError, MalformedMessageError) as error:
            log.warning("beat dropped", subject=message.subject[:200], reason=str(error))
            return None
        function, worker = whose
        before = self.of(function, worker)
        self._heard[function][worker] = Heard(state=beat.state, busy=beat.busy, at=at)
        return whose if before is None or before.state is not beat.state else None

    def of(self, function: str, worker: str) -> Heard | None:
        return self._heard[function].get(worker) if function in self._heard else None

    def busy(self, function: str, *, since: float) -> int:
        """How many invocations those of its workers have in hand that were heard since then."""
        heard = self._heard.get(function, {})
        return sum(each.busy for each in heard.values() if each.at >= since)

    def forget(self, function: str, worker: str) -> None:
        if function in self._heard:
            self._heard[function].pop(worker, None)
            if not self._heard[function]:
                del self._heard[function]

    def forget_silent(self, *, since: float) -> None:
        """All that were not heard since then."""
        for function, workers in tuple(self._heard.items()):
            for worker, heard in tuple(workers.items()):
                if heard.at < since:
                    self.forget(function, worker)
