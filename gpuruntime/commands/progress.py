"""Progress of a wait, in words for the person at the terminal."""

from collections.abc import Iterator
from datetime import datetime
from typing import Final

import attrs

from gpuruntime.client.progress import Judgement, accessor_readiness, invocation_words
from gpuruntime.commands.terminal import Terminal
from gpuruntime.models.kinds.phases import UnitPhase
from gpuruntime.models.kinds.units import Timeline
from gpuruntime.models.views.operators import Job
from gpuruntime.models.views.pools import PoolView
from gpuruntime.models.views.serverless import InvocationView
from gpuruntime.models.views.storages import StorageView
from gpuruntime.models.views.units import UnitView

STEPS: Final = (
    ("accepted", "acceptedAt"),
    ("claimed", "claimedAt"),
    ("created", "createdAt"),
    ("scheduled", "scheduledAt"),
    ("started", "startedAt"),
    ("ready", "readyAt"),
)


@attrs.frozen(kw_only=True, slots=True)
class Step:
    """A step of a unit's start, in `seconds` since the first one.

    A moment in whole seconds may lie before the first one; it counts as 0.
    """

    word: str
    seconds: float


@attrs.frozen(kw_only=True, slots=True)
class Before:
    """The timeline that a unit had when it was changed, and the moment of that change."""

    timeline: Timeline
    asked_at: datetime


def steps_of(timeline: Timeline, before: Before | None = None) -> list[Step]:
    """Return the steps since the first one, or the new steps since the change."""
    reached = list(moments_of(timeline))
    if before is None:
        first = reached[0][1] if reached else None
    else:
        first, known = before.asked_at, set(moments_of(before.timeline))
        reached = [each for each in reached if each not in known]
    return [
        Step(word=word, seconds=max(0.0, (moment - first).total_seconds()) if first else 0.0)
        for word, moment in reached
    ]


def words_of(step: Step) -> str:
    return f"+{step.seconds:.2f}s {step.word}"


class Progress:
    """Print each new step; on a terminal, rewrite one line that shows all of them."""

    def __init__(self, terminal: Terminal, what: str, before: Before | None = None) -> None:
        self._terminal = terminal
        self._what = what
        self._before = before
        # For how long a unit has to stay ready, as its wait has it.
        self.stable_seconds = 0.0
        self._steps: list[str] = []
        self._state = ""

    def unit(self, view: UnitView) -> None:
        for step in map(words_of, steps_of(view.timeline, self._before)):
            if step not in self._steps:
                self._steps.append(step)
                self._show(step)
        is_ready = view.phase == UnitPhase.READY
        staying = f"it has to stay so for {self.stable_seconds:g} s" if self.stable_seconds else ""
        judgement = Judgement(reason=view.reason, message=view.message)
        # Right after a wake the status still says that the unit is suspended.
        is_old = view.phase == UnitPhase.SUSPENDED and not view.suspended
        self._at(staying if is_ready else "" if is_old else str(judgement))

    def state(self, view: PoolView | StorageView | InvocationView) -> None:
        if isinstance(view, InvocationView):
            self._at(str(Judgement(reason=view.state, message=invocation_words(view))))
        else:
            self._at(str(Judgement(reason=view.reason or view.phase, message=view.message)))

    def accessor(self, view: StorageView) -> None:
        self._at(f"files {str(accessor_readiness(view)) or 'are served'}")

    def job(self, view: Job) -> None:
        self._at(f"{view.created} of {view.requested} created, {view.ready} ready")

    def _at(self, state: str) -> None:
        if state != self._state:
            self._state = state
            self._show(state)

    def _show(self, news: str) -> None:
        if news:
            whole = ", ".join([*self._steps, *([self._state] if self._state else [])])
            self._terminal.show(f"{self._what}: {news}", whole=f"{self._what}: {whole}")


def moments_of(timeline: Timeline) -> Iterator[tuple[str, datetime]]:
    for word, member in STEPS:
        moment = getattr(timeline, member)
        if moment is not None:
            yield word, moment
