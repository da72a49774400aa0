"""Whether an active unit may start: the manager is the gate, checks of the API are courtesy.

A unit starts while the stock it names is claimed by its operation; of several units of one
operation only one starts; a unit whose operation has ended under its name never does.
"""

from typing import Final, TypeAlias

import attrs

from gpuruntime.models.kinds import provenance
from gpuruntime.models.kinds.reasons import ConditionType, UnitReason
from gpuruntime.models.kinds.tombstones import Tombstone
from gpuruntime.models.kinds.units import GPUUnit
from gpuruntime.models.kubernetes.conditions import condition_of

# As long as a request of another leader may still be on its way to the API server.
REQUEST_LIFE_SECONDS: Final = 60.0


@attrs.frozen(kw_only=True, slots=True)
class Term:
    """How long this process leads. A clean one follows a leader that had ended its requests."""

    age_seconds: float
    is_clean: bool

    @property
    def unsettled_seconds(self) -> float:
        """How much longer a request of an earlier leader may still land."""
        return 0.0 if self.is_clean else max(0.0, REQUEST_LIFE_SECONDS - self.age_seconds)

    def ends_clean(self, *, doubt_seconds: float) -> bool:
        """Nothing written in it, or before it, can land any more.

        So long ago a write of its own has ended of which it is not known whether it was done.
        """
        return not self.unsettled_seconds and doubt_seconds > REQUEST_LIFE_SECONDS


@attrs.frozen(kw_only=True, slots=True)
class Candidate:
    """A unit that carries the operation, and whether its Deployment was ever made."""

    unit: GPUUnit
    has_started: bool


@attrs.frozen(slots=True)
class Start:
    pass


@attrs.frozen(slots=True)
class Wait:
    message: str
    seconds: float


@attrs.frozen(slots=True)
class Lose:
    """Another unit of the operation went first: this one never starts."""

    message: str


@attrs.frozen(slots=True)
class Remove:
    """The operation has ended: its unit of this name was deleted, and this is another one."""


@attrs.frozen(slots=True)
class ClaimAgain:
    """The stock that the unit names is not held for it."""

    message: str


Gate: TypeAlias = Start | Wait | Lose | Remove | ClaimAgain


def has_started(unit: GPUUnit, *, has_deployment: bool) -> bool:
    """The status remembers a start whose Deployment somebody deleted since."""
    return has_deployment or unit.status.timeline.createdAt is not None


def has_lost(unit: GPUUnit) -> bool:
    """Told a unit of an operation whose other unit goes first."""
    ready = condition_of(unit.status.conditions, ConditionType.READY)
    return ready is not None and ready.reason == UnitReason.OPERATION_CONFLICT


def gate(
    candidate: Candidate,
    *,
    rivals: tuple[Candidate, ...],
    tombstone: Tombstone | None,
    stock: GPUUnit | None,
    unsettled_seconds: float,
) -> Gate:
    """`stock` is what stands under the name of the unit's source, read live before a start.

    For so long a request that was sent already may yet start a rival.
    """
    unit = candidate.unit
    if candidate.has_started:
        return Start()
    if tombstone is not None and tombstone.forbids(unit):
        return Remove()
    if rivals:
        winner = min((candidate, *rivals), key=_precedence)
        if winner is not candidate:
            return Lose(_lost_to(f"belongs to unit {winner.unit.metadata.key}", unit))
    if has_lost(unit):
        # Only one unit of an operation ever starts, also when the one that did is gone.
        return Lose(_lost_to("belonged to a unit that is gone", unit))
    if rivals and unsettled_seconds:
        return Wait(
            f"operation {provenance.operation_of(unit)} has {len(rivals) + 1} units: "
            "waits until no request that is on its way can start another one",
            unsettled_seconds,
        )
    return _stock_gate(unit, stock)


def is_held_for(stock: GPUUnit, unit: GPUUnit) -> bool:
    """Claimed by the unit's own operation, for the unit's own name."""
    return (
        stock.metadata.uid == provenance.source_uid_of(unit)
        and provenance.claimant_of(stock) == unit.metadata.key
        and provenance.operation_of(stock) == provenance.operation_of(unit)
    )


def _lost_to(whose: str, unit: GPUUnit) -> str:
    operation = provenance.operation_of(unit)
    return f"operation {operation} {whose}: delete this unit to free the stock that it holds"


def _stock_gate(unit: GPUUnit, stock: GPUUnit | None) -> Gate:
    source = provenance.source_of(unit)
    if source is None:
        return Start()
    if stock is None or stock.metadata.uid != provenance.source_uid_of(unit):
        return ClaimAgain(f"stock {source} is gone")
    if not is_held_for(stock, unit):
        holder = provenance.claimant_of(stock)
        return ClaimAgain(f"stock {source} is held by {holder or 'nobody'}")
    return Start()


def _precedence(candidate: Candidate) -> tuple[bool, float, str]:
    return (not candidate.has_started, *provenance.seniority(candidate.unit))
