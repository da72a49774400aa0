"""Pure rules of recovery: which state follows from each outcome of a list or a watch.

Empty → Listed → Watching: a list leads to Listed, an open watch to Watching. When a watch ends,
the state is Listed again, or Empty if its version cannot be resumed.
"""

from random import Random
from typing import TypeAlias, assert_never

import attrs

from gpuruntime.kube.errors import (
    ApiError,
    BadRequestError,
    ExpiredError,
    InvalidError,
    KubeError,
    MalformedAnswerError,
    SilentWatchError,
    ThrottledError,
)

FIRST_DELAY_SECONDS = 0.8
LONGEST_DELAY_SECONDS = 30.0
FORGOTTEN_AFTER_SECONDS = 120.0
# A window counts as healthy if it lasts for this many seconds, or if it brings an event.
SHORTEST_HEALTHY_SECONDS = 1.0
# A consistent list is never older than the last known version, unless the server was restored from
# a backup. After this many stale lists in a row, the server is believed.
MOST_STALE_LISTS = 3
# A version may be resumed once after the server ended its watch with an error, but not twice. The
# same holds if twice no event comes: a server that was restored does not know the version yet.
MOST_REFUSALS = 2


class StaleListError(KubeError):
    """The list is older than a version that was seen before it."""


@attrs.frozen(kw_only=True, slots=True)
class Empty:
    """No version to resume from: list. With a token, the pages before it have been read."""

    continue_token: str = ""
    stale_lists: int = 0


@attrs.frozen(kw_only=True, slots=True)
class Listed:
    """A watch can start from the version; `refusals` counts errors since it last moved."""

    version: int
    refusals: int = 0


@attrs.frozen(kw_only=True, slots=True)
class Watching:
    """The server has accepted a watch from the version."""

    version: int
    refusals: int = 0


State: TypeAlias = Empty | Listed | Watching


@attrs.frozen(kw_only=True, slots=True)
class PageRead:
    """A page was read, and more follow."""

    continue_token: str


@attrs.frozen(kw_only=True, slots=True)
class ListRead:
    """The last page was read."""

    version: int


@attrs.frozen(kw_only=True, slots=True)
class ListFailed:
    error: KubeError


@attrs.frozen(kw_only=True, slots=True)
class WindowOpened:
    pass


@attrs.frozen(kw_only=True, slots=True)
class EventReceived:
    """An event or a bookmark of the version was received."""

    version: int


@attrs.frozen(kw_only=True, slots=True)
class WindowEnded:
    """The watch ended, in order if `error` is None; 0 seconds mean that it never opened."""

    lived_seconds: float
    has_advanced: bool
    error: KubeError | None = None


@attrs.frozen(kw_only=True, slots=True)
class StoreDiverged:
    """The store was found to differ from the server."""


Outcome: TypeAlias = (
    PageRead | ListRead | ListFailed | WindowOpened | EventReceived | WindowEnded | StoreDiverged
)


def advance(state: State, outcome: Outcome) -> State:
    match state:
        case Empty():
            return _after_list(state, outcome)
        case Listed() | Watching():
            return _after_watch(state, outcome)
        case _:
            assert_never(state)


def judge_list(state: Empty, version: int, known_version: int) -> ListRead | ListFailed:
    """Return a failure if the list is older than the version known before its first page.

    After `MOST_STALE_LISTS` stale lists in a row, the list is accepted as it is.
    """
    if version < known_version and state.stale_lists < MOST_STALE_LISTS:
        fault = f"a list at version {version} is older than {known_version}, seen before it"
        return ListFailed(error=StaleListError(fault))
    return ListRead(version=version)


def _after_list(state: Empty, outcome: Outcome) -> State:
    match outcome:
        case PageRead():
            return attrs.evolve(state, continue_token=outcome.continue_token)
        case ListRead():
            return Listed(version=outcome.version)
        case ListFailed(error=StaleListError()):
            return Empty(stale_lists=state.stale_lists + 1)
        case ListFailed(error=ExpiredError()):
            return attrs.evolve(state, continue_token="")
        case _:
            return state


def _after_watch(state: Listed | Watching, outcome: Outcome) -> State:
    match outcome:
        case (
            StoreDiverged()
            | WindowEnded(error=ExpiredError() | BadRequestError() | InvalidError())
        ):
            return Empty()
        case WindowOpened():
            return Watching(version=state.version, refusals=state.refusals)
        case EventReceived() if outcome.version > state.version:
            return Watching(version=outcome.version)
        case WindowEnded(error=error):
            refusals = state.refusals + _is_refusal(state, error)
            if refusals >= MOST_REFUSALS:
                return Empty()
            return Listed(version=state.version, refusals=refusals)
        case _:
            return state


def _is_refusal(state: Listed | Watching, error: KubeError | None) -> bool:
    """Return whether the server ended an open watch with an error that speaks against its version.

    A server that only lacks capacity would not have opened the watch.
    """
    if isinstance(state, Listed) or isinstance(error, ThrottledError):
        return False
    return isinstance(error, ApiError | MalformedAnswerError | SilentWatchError)


@attrs.frozen(kw_only=True, slots=True)
class Health:
    """Number of failures in a row, and the seconds of healthy watching since the last one."""

    failures: int = 0
    healthy_seconds: float = 0.0

    def after(self, outcome: Outcome) -> "Health":
        lived = outcome.lived_seconds if isinstance(outcome, WindowEnded) else 0.0
        healthy_seconds = self.healthy_seconds + lived
        is_forgotten = healthy_seconds >= FORGOTTEN_AFTER_SECONDS
        return Health(
            failures=(0 if is_forgotten else self.failures) + is_failure(outcome),
            healthy_seconds=0.0 if is_forgotten else healthy_seconds,
        )

    def delay_seconds(self, outcome: Outcome, rng: Random) -> float:
        """Return how long to wait after the outcome, which this Health has already counted."""
        if is_failure(outcome):
            return _retry_after_seconds(outcome) + rng.uniform(0, self._longest_delay_seconds())
        if isinstance(outcome, WindowEnded):
            return max(0.0, SHORTEST_HEALTHY_SECONDS - outcome.lived_seconds)
        return 0.0

    def _longest_delay_seconds(self) -> float:
        doublings = min(self.failures - 1, 10)
        return min(FIRST_DELAY_SECONDS * 2.0**doublings, LONGEST_DELAY_SECONDS)


def is_failure(outcome: Outcome) -> bool:
    match outcome:
        case ListFailed():
            return True
        case WindowEnded(error=None):
            return outcome.lived_seconds < SHORTEST_HEALTHY_SECONDS and not outcome.has_advanced
        case WindowEnded():
            return True
        case _:
            return False


def error_of(outcome: Outcome) -> KubeError | None:
    return outcome.error if isinstance(outcome, ListFailed | WindowEnded) else None


def was_open(outcome: Outcome) -> bool:
    """Return whether the watch was open before it failed; the next attempt shows an outage."""
    return isinstance(outcome, WindowEnded) and outcome.lived_seconds > 0


def _retry_after_seconds(outcome: Outcome) -> float:
    error = error_of(outcome)
    return (isinstance(error, ApiError) and error.retry_after_seconds) or 0.0
