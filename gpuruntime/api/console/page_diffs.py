"""Server-sent events of one page: first the whole page, then what has changed.

A page is read again and compared with the one sent last. A slow reader misses states in between,
and always gets the present one; only its page is kept for it.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final, Generic, TypeVar

import attrs
import msgspec

from gpuruntime.models.kubernetes.metadata import KubernetesObject

ObjectT = TypeVar("ObjectT", bound=KubernetesObject)

_encoder: Final = msgspec.json.Encoder()


@attrs.frozen(kw_only=True, slots=True)
class LivePage:
    """A page: rows as JSON by name, in the order of the list; `next` is the list's cursor."""

    rows: Mapping[str, bytes]
    next: str = ""


class PageDiff:
    """The page of one reader, as it was sent last."""

    def __init__(self, read: Callable[[], LivePage]) -> None:
        self._read = read
        self._sent: LivePage | None = None

    def __call__(self) -> bytes:
        """Return the event with what has changed, or nothing."""
        sent, now = self._sent, self._read()
        self._sent = now
        if sent is None:
            return event("page", _document(now, now.rows.values()))
        changed = [row for name, row in now.rows.items() if sent.rows.get(name) != row]
        is_same = not changed and list(sent.rows) == list(now.rows) and sent.next == now.next
        return b"" if is_same else event("change", _document(now, changed))


class ValueDiff:
    """A value that is sent whole whenever it has changed."""

    def __init__(self, name: str, read: Callable[[], object]) -> None:
        self._name = name
        self._read = read
        self._sent = b""

    def __call__(self) -> bytes:
        now = _encoder.encode(self._read())
        if now == self._sent:
            return b""
        self._sent = now
        return event(self._name, now)


class Rows(Generic[ObjectT]):
    """Encodes the rows of a page, and keeps the encoding of objects that have not changed."""

    def __init__(self, row_of: Callable[[ObjectT], object]) -> None:
        self._row_of = row_of
        self._kept: dict[str, tuple[ObjectT, bytes]] = {}

    def of(self, values: Iterable[ObjectT]) -> dict[str, bytes]:
        self._kept = {value.metadata.name: self._encoded(value) for value in values}
        return {name: row for name, (_, row) in self._kept.items()}

    def _encoded(self, value: ObjectT) -> tuple[ObjectT, bytes]:
        kept = self._kept.get(value.metadata.name)
        if kept is not None and kept[0] is value:
            return kept
        return value, _encoder.encode(self._row_of(value))


def event(name: str, document: bytes) -> bytes:
    """Return one event; the encoder's JSON has no line breaks."""
    return b"event: %b\ndata: %b\n\n" % (name.encode(), document)


def _document(page: LivePage, changed: Iterable[bytes]) -> bytes:
    names, following = _encoder.encode(list(page.rows)), _encoder.encode(page.next)
    return b'{"put":[%b],"names":%b,"next":%b}' % (b",".join(changed), names, following)
