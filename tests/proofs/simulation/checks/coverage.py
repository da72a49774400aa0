"""The kinds of writes that runs made, and the moments of them at which a process crashed."""

from collections import Counter
from typing import Final

import attrs

from gpuruntime.kube.transport import Request
from tests.proofs.simulation.faults.kinds import FaultKind

MOMENTS: Final = (FaultKind.CRASH_BEFORE, FaultKind.CRASH_SENT, FaultKind.CRASH_AFTER)


@attrs.frozen(order=True, slots=True)
class WriteKind:
    """A kind of write: the role of its process, its method, and its collection."""

    role: str
    method: str
    what: str

    def __str__(self) -> str:
        return f"{self.role} {self.method} {self.what}"


@attrs.define(slots=True)
class WriteCoverage:
    """The writes and crashes of one run, or of several runs together."""

    writes: Counter[WriteKind] = attrs.field(factory=Counter)
    crashes: Counter[tuple[WriteKind, FaultKind]] = attrs.field(factory=Counter)

    def note(self, process: str, request: Request, fault: object) -> None:
        kind = write_kind(process, request)
        self.writes[kind] += 1
        if isinstance(fault, FaultKind) and fault in MOMENTS:
            self.crashes[kind, fault] += 1

    def add(self, other: "WriteCoverage") -> None:
        self.writes.update(other.writes)
        self.crashes.update(other.crashes)

    def missed(self, often: int) -> list[str]:
        """Return a line for each moment without a crash, of writes made at least `often` times."""
        return [
            f"{kind} (written {self.writes[kind]} times): no crash at {moment}"
            for kind in sorted(self.writes)
            for moment in MOMENTS
            if self.writes[kind] >= often and not self.crashes[kind, moment]
        ]


def write_kind(process: str, request: Request) -> WriteKind:
    """Return the kind of a write, with its namespace: stock is written differently."""
    role, _, _ = process.rpartition("-")
    _, _, where = request.path.partition("/namespaces/")
    namespace, _, rest = where.partition("/")
    plural, *further = rest.split("/")
    return WriteKind(role, request.method, "/".join((namespace, plural, *further[1:])))
