"""What workers last told of themselves, and when it was heard."""

from collections import defaultdict
from collections.abc import Callable

import attrs
import structlog

from gpuruntime.bus.errors import BadNameError, MalformedMessageError
from gpuruntime.bus.messages import Heartbeat, WorkerState, read
from gpuruntime.bus.names import Names
from gpuruntime.bus.session import Message
from gpuruntime.models.kinds.units import GPUUnit
from gpuruntime.models.kubernetes.metadata import Key
from gpuruntime.operations.lookup.caches import Cache

log = structlog.get_logger()


@attrs.frozen(kw_only=True, slots=True)
class LastHeartbeat:
    """`at` is loop time. `uid` is empty where the worker does not know its own.

    `foreign` is how many invocations of another declarer it has met.
    """

    uid: str
    state: WorkerState
    busy: int
    foreign: int = 0
    at: float


def uids_in(units: Cache[GPUUnit], namespace: str) -> Callable[[str], str | None]:
    """The uid of a unit by its name, None where there is none."""

    def uid_of(name: str) -> str | None:
        unit = units.store.get(Key(namespace, name))
        return unit.metadata.uid if unit else None

    return uid_of


class Heartbeats:
    """By function and worker. The subject says whose a beat is, since rights are on subjects.

    `uid_of` names the unit of a worker that is there. What an earlier worker of the name still
    tells is not this one's, and of a worker that nobody knows nothing is kept.
    """

    def __init__(self, names: Names, uid_of: Callable[[str], str | None]) -> None:
        self._names = names
        self._uid_of = uid_of
        self._heard: defaultdict[str, dict[str, LastHeartbeat]] = defaultdict(dict)

    def hear(self, message: Message, *, at: float) -> tuple[str, str] | None:
        """Whose beat told what wants a look: another state, or more that is foreign; else None."""
        try:
            whose = self._names.beat_of(message.subject)
            beat = read(message.data, Heartbeat)
        except (BadNameError, MalformedMessageError) as error:
            log.warning("beat dropped", subject=message.subject[:200], reason=str(error))
            return None
        function, worker = whose
        uid = self._uid_of(worker)
        if uid is None or beat.uid not in ("", uid):
            return None
        before = self.of(function, worker)
        told = LastHeartbeat(
            uid=beat.uid, state=beat.state, busy=beat.busy, foreign=beat.foreign, at=at
        )
        self._heard[function][worker] = told
        is_news = before is None or (before.state, before.foreign) != (told.state, told.foreign)
        return whose if is_news else None

    def of(self, function: str, worker: str) -> LastHeartbeat | None:
        return self._heard[function].get(worker) if function in self._heard else None

    def busy(self, function: str, *, since: float) -> int:
        """How many invocations those of its workers have in hand that were heard since then."""
        heard = self._heard.get(function, {})
        return sum(each.busy for each in heard.values() if each.at >= since)

    def foreign(self, function: str) -> int:
        """How many invocations of another declarer its workers have met."""
        return sum(each.foreign for each in self._heard.get(function, {}).values())

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
