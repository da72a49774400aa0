"""One invariant: what it says, over which objects it goes, and how it judges one of them."""

from collections.abc import Callable, Iterable, Iterator
from typing import Generic, TypeVar

import attrs

from gpuruntime.audit.breach import Finding
from gpuruntime.audit.facts import Facts
from gpuruntime.audit.snapshot import Snapshot

SubjectT = TypeVar("SubjectT")


@attrs.frozen(kw_only=True, slots=True)
class Rule(Generic[SubjectT]):
    """Rules differ in their subjects; `needs` are the kinds without which nothing can be said."""

    name: str
    description: str
    subjects: Callable[[Facts], Iterable[SubjectT]]
    judge: Callable[[SubjectT, Facts], Iterator[Finding]]
    needs: tuple[str, ...] = ()

    def is_judged(self, snapshot: Snapshot) -> bool:
        return all(getattr(snapshot, kind) is not None for kind in self.needs)
