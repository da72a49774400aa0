"""Corruptions of a sound snapshot: each is a breach of its rule, and of those that follow."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import pytest

from gpuruntime.audit.audit import breaches
from gpuruntime.audit.snapshot import Snapshot
from tests.rooms.audit.values import aged

Corruption = Callable[[Snapshot], Snapshot]


def both(*corruptions: Corruption) -> Corruption:
    """Return a corruption that applies them one after the other."""

    def apply(snapshot: Snapshot) -> Snapshot:
        for each in corruptions:
            snapshot = each(snapshot)
        return snapshot

    return apply


def cases(corruptions: Mapping[str, Sequence[Corruption]]) -> list[Any]:
    """Return a parameter set of rule and corruption for each, with an id."""
    return [
        pytest.param(rule, corrupt, id=f"{rule}-{number}")
        for rule, ways in corruptions.items()
        for number, corrupt in enumerate(ways, 1)
    ]


def rules_broken(snapshot: Snapshot) -> set[str]:
    return {breach.rule for breach in breaches(snapshot)}


def demand_breach(rule: str, corrupted: Snapshot, follows: Collection[tuple[str, str]]) -> None:
    """Assert that the rule is broken for long; other broken rules have to follow from it."""
    broken = rules_broken(aged(corrupted, 3_600))
    assert rule in broken
    assert all(rule == each or (rule, each) in follows for each in broken), broken
