"""Rules of a built-in kind: first Go's types, then its defaults, then its own checks."""

from collections.abc import Callable, Iterable

from gpuruntime.embedded.apiserver.documents import Document
from gpuruntime.embedded.schemas.faults import Fault
from gpuruntime.embedded.schemas.go_types import go_structs, read_document

Fill = Callable[[Document, Document | None], None]
Judge = Callable[[Document, Document | None], Iterable[Fault]]


def fill_nothing(document: Document, old: Document | None) -> None:
    """Fill in nothing, for kinds without defaults."""


def judge_nothing(document: Document, old: Document | None) -> Iterable[Fault]:
    """Accept any document with the right types."""
    return ()


class BuiltinRules:
    def __init__(
        self, struct: str, *, fill: Fill = fill_nothing, judge: Judge = judge_nothing
    ) -> None:
        self._struct = struct
        self._fill = fill
        self._judge = judge

    def prune(self, document: Document) -> list[str]:
        return read_document(go_structs()[self._struct], document)

    def fill(self, document: Document, old: Document | None) -> None:
        """Fill in what Go always writes, such as an empty status, and then the kind's defaults."""
        struct = go_structs()[self._struct]
        for name in struct.always:
            if name not in document:
                document[name] = struct.members[name].type.zero()
        self._fill(document, old)

    def faults(self, document: Document, old: Document | None) -> list[Fault]:
        return list(self._judge(document, old))
