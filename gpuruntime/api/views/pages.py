"""Pages of lists: their length, and the cursor at which the next one begins.

A cursor names the last item of its page by the list's sort key. So items may be created and
deleted between two pages, and no other item is repeated or left out.
"""

import binascii
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Annotated, Final, TypeAlias

import attrs
import msgspec

from gpuruntime.models.definitions.schemas import Schema
from gpuruntime.models.kubernetes.metadata import Key
from gpuruntime.strict.structure import Problem, StrictError

DEFAULT_LIMIT: Final = 100
LARGEST_LIMIT: Final = 1_000
_LONGEST_CURSOR = 1_024
_LONGEST_NUMBER = 19

Limit: TypeAlias = Annotated[
    int, Schema(minimum=1, maximum=LARGEST_LIMIT, description="Most items of the page.")
]
Cursor: TypeAlias = Annotated[
    str,
    Schema(maxLength=_LONGEST_CURSOR, description="`next` of the previous page, unchanged."),
]
_decoder = msgspec.json.Decoder(tuple[str, ...])


@attrs.frozen(kw_only=True, slots=True)
class PageQuery:
    limit: Limit = DEFAULT_LIMIT
    cursor: Cursor = ""


def cursor_after(*position: str) -> str:
    return urlsafe_b64encode(msgspec.json.encode(position)).rstrip(b"=").decode()


def position_of(cursor: str, *, parts: int) -> tuple[str, ...]:
    """Return the position in a cursor; raise StrictError for a cursor that the API never gave."""
    try:
        padded = cursor.encode("ascii") + b"=" * (-len(cursor) % 4)
        position = _decoder.decode(urlsafe_b64decode(padded))
    except (binascii.Error, msgspec.DecodeError, UnicodeError) as error:
        raise _no_cursor() from error
    if len(position) != parts or cursor_after(*position) != cursor:
        raise _no_cursor()
    return position


def cursor_after_key(key: Key | None) -> str:
    """Return the cursor after a key, or "" after the last page."""
    return cursor_after(key.name, key.namespace) if key else ""


def key_of(cursor: str) -> Key | None:
    if not cursor:
        return None
    name, namespace = position_of(cursor, parts=2)
    return Key(namespace, name)


def number_of(cursor: str) -> int:
    """Return the position in a list that is ordered by numbers; 0 before the first page."""
    if not cursor:
        return 0
    (position,) = position_of(cursor, parts=1)
    if not position.isdecimal() or not position.isascii() or len(position) > _LONGEST_NUMBER:
        raise _no_cursor()
    return int(position)


def _no_cursor() -> StrictError:
    message = "is not a cursor of this list: use `next` of the page before"
    return StrictError((Problem(field="cursor", message=message),))
