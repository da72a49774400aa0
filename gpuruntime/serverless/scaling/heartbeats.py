"""The last heartbeat of each worker, and when it was received."""

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
    """`at` is loop time. `uid` is empty if the worker does not know its own.

    `foreign` is how many invocations of other declarers it has met.
    """

    uid: str
    state: WorkerState
    busy: int
    foreign: int = 0
    at: float


def uids_in(units: Cache[GPUUnit], namespace: str) -> Callable[[str], str | None]:
    """Return a function from a unit's name to its uid, or to None if there is no such unit."""

    def uid_of(name: str) -> str | None:
        unit = units.store.get(Key(namespace, name))
        return unit.metadata.uid if unit else None

    return uid_of


class Heartbeats:
    """Heartbeats by function and worker, both taken from the subject, since rights are on
    subjects.

    `uid_of` returns the uid of the current unit of a worker. Heartbeats of an earlier worker with
    the same name are ignored, and so are those of unknown workers.
    """

    def __init__(self, names: Names, uid_of: Callable[[str], str | None]) -> None:
        self._names = names
        self._uid_of = uid_of
        self._heard: defaultdict[str, dict[str, LastHeartbeat]] = defaultdict(dict)

    def receive(self, message: Message, *, at: float) -> tuple[str, str] | None:
        """Keep the heartbeat; return function and worker if it needs a reconcile, else None.

        It needs one if the state has changed or the count of foreign invocations has.
        """
        try:
            whose = self._names.beat_of(message.subject)
            beat = read(message.data, Heartbeat)
        except (BadNameError, MalformedMessageError) as error:
            log.warning("heartbeat dropped", subject=message.subject[:200], reason=str(error))
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
        """Return how many invocations run at its workers that were heard since that moment."""
        heard = self._heard.get(function, {})
        return sum(each.busy for each in heard.values() if each.at >= since)

    def foreign(self, function: str) -> int:
        """Return how many invocations of other declarers its workers have met."""
        return sum(each.foreign for each in self._heard.get(function, {}).values())

    def forget(self, function: str, worker: str) -> None:
        if function in self._heard:
            self._heard[function].pop(worker, None)
            if not self._heard[function]:
                del self._heard[function]

    def forget_silent(self, *, since: float) -> None:
        """Forget all workers that were last heard before that moment."""
        for function, workers in tuple(self._heard.items()):
            for worker, heard in tuple(workers.items()):
                if heard.at < since:
                    self.forget(function, worker)
