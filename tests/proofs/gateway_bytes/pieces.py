"""A body whose pieces differ from each other, so that its digest shows their order."""

import hashlib
from collections.abc import Iterator
from random import Random
from typing import Final

MIB: Final = 1024 * 1024
_NUMBER_BYTES: Final = 8
_REST: Final = Random(0).randbytes(MIB - _NUMBER_BYTES)


def pieces(count: int) -> Iterator[bytes]:
    """Yield this many pieces of a MiB each."""
    return (number.to_bytes(_NUMBER_BYTES) + _REST for number in range(count))


def digest_of(count: int) -> str:
    digest = hashlib.sha256()
    for piece in pieces(count):
        digest.update(piece)
    return digest.hexdigest()
