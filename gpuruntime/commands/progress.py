"""How far something is, in words for whoever waits for it."""

from collections.abc import Iterator
from datetime import datetime
from typing import Final

import attrs

from gpuruntime.client.standings import Standing, accessor_on_its_way_to_ready
from gpuruntime.commands.terminal import Terminal
from gpuruntime.models.operator_views import Job
from gpuruntime.models.serverless_views import InvocationView
from gpuruntime.models.units import Timeline
from gpuruntime.models.views import PoolView, StorageView, UnitView

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
    """`seconds` since the first one; a moment of whole seconds may lie before it: then none."""

    word: str
    seconds: float


def steps_of(timeline: Timeline) -> list[Step]:
    reached = list(_moments(timeline))
    first = reached[0][1] if reached else None
    return [
        Step(word=word, seconds=max(0.0, (moment - first).total_seconds()) if first else 0.0)
        for word, moment in reached
    ]


def words_of(step: Step) -> str:
    return f"+{step.seconds:.2f}s {step.word}"


class Progress:
    """Shows what is new; on a terminal all of it, in one line that is written again."""

    def __init__(self, terminal: Terminal, what: str) -> None:
        self._terminal = terminal
        self._what = what
        self._shown: list[str] = []

    def unit(self, view: UnitView) -> None:
        for step in steps_of(view.timeline):
            self._show(words_of(step))
        if view.phase != "Ready" and view.reason:
            self._show(str(Standing(reason=view.reason, message=view.message)))

    def state(self, view: PoolView | StorageView | InvocationView) -> None:
        if isinstance(view, InvocationView):
            self._show(str(Standing(reason=view.state, message=view.error)))
        else:
            self._show(str(Standing(reason=view.reason or view.phase, message=view.message)))

    def accessor(self, view: StorageView) -> None:
        self._show(f"files {str(accessor_on_its_way_to_ready(view)) or 'are served'}")

    def job(self, view: Job) -> None:
        self._show(f"{view.created} of {view.requested} created, {view.ready} ready")

    def _show(self, words: str) -> None:
        if words and words not in self._shown:
            self._shown.append(words)
            self._terminal.show(f"{self._what}: {words}")


def _moments(timeline: Timeline) -> Iterator[tuple[str, datetime]]:
    for word, member in STEPS:
        moment = getattr(timeline, member)
        if moment is not None:
            yield word, moment
