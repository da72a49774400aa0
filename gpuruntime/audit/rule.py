"""A rule states one invariant, names its subjects, and judges one subject at a time."""

import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import PurePath
from typing import Final, Generic, TypeAlias, TypeVar

import attrs

from gpuruntime.audit.breach import Finding, reference_to
from gpuruntime.audit.index import SnapshotIndex
from gpuruntime.audit.mounts import Mount
from gpuruntime.audit.snapshot import Snapshot
from gpuruntime.models.kubernetes.metadata import KubernetesObject

Subject: TypeAlias = KubernetesObject | Sequence[KubernetesObject] | Mount
SubjectT = TypeVar("SubjectT", bound=Subject)

# The version of a finding that the rule itself failed on the objects.
NOT_JUDGED: Final = "not judged"


@attrs.frozen(kw_only=True, slots=True)
class Rule(Generic[SubjectT]):
    """An invariant over subjects of one type; without a kind in `needs` it is not judged."""

    name: str
    description: str
    subjects: Callable[[SnapshotIndex], Iterable[SubjectT]]
    judge: Callable[[SubjectT, SnapshotIndex], Iterator[Finding]]
    needs: tuple[str, ...] = ()

    def is_judged(self, snapshot: Snapshot) -> bool:
        return all(getattr(snapshot, kind) is not None for kind in self.needs)

    def findings(self, subject: SubjectT, index: SnapshotIndex) -> Iterator[Finding]:
        """Yield the findings; a rule that fails on a subject reports that as a finding."""
        try:
            yield from self.judge(subject, index)
        except Exception as error:  # noqa: BLE001  # told as a breach: who looks on ends no leader
            yield _not_judged(subject, error)


def _not_judged(subject: Subject, error: Exception) -> Finding:
    objects = tuple(map(reference_to, _objects_of(subject)))
    place = traceback.extract_tb(error.__traceback__)[-1]
    return Finding(
        objects=objects,
        message=f"the rule cannot be judged of {', '.join(map(str, objects))}: "
        f"{type(error).__name__}: {error} ({PurePath(place.filename).name}:{place.lineno})",
        remedy="find out what is unusual about them, and report it: the audit is at fault",
        version=NOT_JUDGED,
    )


def _objects_of(subject: Subject) -> Sequence[KubernetesObject]:
    match subject:
        case Mount():
            return subject.pods
        case Sequence():
            return subject
        case _:
            return (subject,)
