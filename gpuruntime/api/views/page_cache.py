"""A cache of encoded pages, each used until something on it changes.

Callers read the same page of an idle fleet over and over. Joining it again from a hundred places
in memory costs more than the rest of its request.
"""

from collections.abc import Hashable
from typing import Final

import attrs
import msgspec

from gpuruntime.concurrency.latest import Latest

# Bytes of the documents; their encoded views may take as many again.
MOST_BYTES: Final = 32 * 1024 * 1024
# A bound on pages as well, as empty pages cost memory and there are endless cursors and filters.
MOST_PAGES: Final = 1_000

_encoder: Final = msgspec.json.Encoder()


@attrs.frozen(slots=True)
class _Sent:
    version: int
    items: list[bytes]
    following: str
    document: bytes


class PageCache:
    """Reuse a document while its items are equal to those it was made of.

    `version` changes with every change of the list. While it stays, no item has to be compared.
    """

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        self._sent = Latest[Hashable, _Sent](MOST_PAGES)
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._sent)

    def unchanged(self, asked: Hashable, version: int) -> bytes | None:
        """Return the document that was made at this version, or None."""
        sent = self._sent.get(asked, None)
        return sent.document if sent is not None and sent.version == version else None

    def of(self, asked: Hashable, version: int, items: list[bytes], following: str) -> bytes:
        sent = self._sent.get(asked, None)
        is_equal = sent is not None and sent.items == items and sent.following == following
        document = sent.document if sent is not None and is_equal else joined(items, following)
        self._keep(asked, _Sent(version, items, following, document))
        return document

    def _keep(self, asked: Hashable, sent: _Sent) -> None:
        """Keep a page, and drop the oldest ones beyond the bounds."""
        self._bytes += len(sent.document)
        for dropped in self._sent.put(asked, sent):
            self._bytes -= len(dropped.document)
        while self._bytes > self._most_bytes:
            self._bytes -= len(self._sent.pop_oldest().document)


def joined(items: list[bytes], following: str) -> bytes:
    """Return a page, copying its items, perhaps a megabyte, only once."""
    head, tail = b'{"data":[', b'],"next":%b}' % _encoder.encode(following)
    if not items:
        return head + tail
    pieces = [*items]
    pieces[0] = head + pieces[0]
    pieces[-1] += tail
    return b",".join(pieces)
