"""Pure decision whether an active unit may start; the checks of the API are only a courtesy.

A unit starts while its operation has claimed the stock that the unit names. Of several units of
one operation, only one starts. A unit never starts if its operation has ended under its name.
"""

from typing import TypeAlias

import attrs

from gpuruntime.models.kinds import provenance
from gpuruntime.models.kinds.claim_timing import REQUEST_LIFE_SECONDS
from gpuruntime.models.kinds.tombstones import Tombstone
from gpuruntime.models.kinds.units import GPUUnit


@attrs.frozen(kw_only=True, slots=True)
class Term:
    """How long this process leads; a clean term begins after the last leader's requests ended."""

    age_seconds: float
    is_clean: bool

    @property
    def unsettled_seconds(self) -> float:
        """Return for how many more seconds a request of an earlier leader may still land."""
        return 0.0 if self.is_clean else max(0.0, REQUEST_LIFE_SECONDS - self.age_seconds)

    def ends_clean(self, *, doubt_seconds: float) -> bool:
        """Return whether no write of this term, or of an earlier one, can still land.

        `doubt_seconds` have passed since the last own write of unknown outcome ended.
        """
        return not self.unsettled_seconds and doubt_seconds > REQUEST_LIFE_SECONDS


@attrs.frozen(kw_only=True, slots=True)
class Candidate:
    """A unit that carries the operation, and whether its Deployment was ever created."""

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
    """The unit never starts, because another unit of its operation has precedence."""

    message: str


@attrs.frozen(slots=True)
class Remove:
    """The unit is deleted: its operation has ended, and its own unit of this name was deleted."""


@attrs.frozen(slots=True)
class ClaimAgain:
    """The unit needs other stock: the stock that it names is not held for it."""

    message: str


Gate: TypeAlias = Start | Wait | Lose | Remove | ClaimAgain


def has_started(unit: GPUUnit, *, has_deployment: bool) -> bool:
    """Return whether the unit ever started, even if its Deployment has been deleted since."""
    return has_deployment or unit.status.timeline.createdAt is not None


def gate(
    candidate: Candidate,
    *,
    rivals: tuple[Candidate, ...],
    tombstone: Tombstone | None,
    stock: GPUUnit | None,
    unsettled_seconds: float,
) -> Gate:
    """Decide whether the candidate may start.

    `stock` is the live unit under the name of the candidate's source. For `unsettled_seconds`
    more, a request that was already sent may still start a rival.
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
    if provenance.has_lost(unit):
        # Only one unit of an operation ever starts, even after the one that started is gone.
        return Lose(_lost_to("belonged to a unit that is gone", unit))
    if rivals and unsettled_seconds:
        return Wait(
            f"operation {provenance.operation_of(unit)} has {len(rivals) + 1} units: "
            "waits until no request that is on its way can start another one",
            unsettled_seconds,
        )
    return _stock_gate(unit, stock)


def is_held_for(stock: GPUUnit, unit: GPUUnit) -> bool:
    """Return whether the unit's own operation has claimed the stock for the unit's own name."""
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
