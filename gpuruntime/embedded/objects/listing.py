"""Lists: pages of one consistent snapshot at the requested version."""

import base64
import binascii
from itertools import islice
from typing import Final

import attrs
import msgspec

from gpuruntime.embedded.apiserver.query_options import ListOptions
from gpuruntime.embedded.apiserver.status_errors import bad_request, expired, too_large_version
from gpuruntime.embedded.objects.selection import Selection
from gpuruntime.embedded.objects.store import Collection, Store
from gpuruntime.embedded.objects.versions import Stored

CONTINUE_FORMAT: Final = "meta.k8s.io/v1"
WHATEVER_VERSION: Final = -1

_PAGE_TOO_OLD: Final = (
    "The provided continue parameter is too old to display a consistent list result. Start a new "
    "list without it, or go on with the continue token of this response: objects that changed "
    "since the first page may then be missing or appear twice."
)
_VERSION_TOO_OLD: Final = "The resourceVersion for the provided list is too old."


class _Token(msgspec.Struct):
    v: str
    rv: int
    start: str


@attrs.frozen(kw_only=True, slots=True)
class Page:
    """A page of a list; `remaining` is None if selectors would require a full scan."""

    items: list[Stored]
    version: int
    continue_token: str = ""
    remaining: int | None = None


def list_page(
    store: Store, collection: Collection, selection: Selection, options: ListOptions
) -> Page:
    """Return one page; its token holds the first page's version: all pages show one snapshot."""
    prefix = f"{selection.namespace}/" if selection.namespace else ""
    start, version = "", store.version
    if options.continue_token:
        token = _read_token(options.continue_token)
        start = token.start
        version = store.version if token.rv == WHATEVER_VERSION else token.rv
        if version < collection.compacted_version:
            raise expired(_PAGE_TOO_OLD, _token(WHATEVER_VERSION, start))
    elif options.is_exact and options.version <= store.version:
        version = options.version
        if version < collection.compacted_version:
            raise expired(_VERSION_TOO_OLD)
    asked = max(version, options.version)
    if asked > store.version:
        raise too_large_version(asked, store.version)
    snapshot = collection.snapshot(version)
    found = (
        stored
        for stored in snapshot.objects(prefix, prefix + start.removeprefix("/"))
        if selection.matches(stored)
    )
    if not options.limit:
        return Page(items=list(found), version=version)
    items = list(islice(found, options.limit))
    if next(found, None) is None:
        return Page(items=items, version=version)
    last = items[-1].path
    return Page(
        items=items,
        version=version,
        continue_token=_token(version, "/" + last.removeprefix(prefix) + "\0"),
        remaining=None if selection.is_filtered else snapshot.count(prefix, last),
    )


def _token(version: int, start: str) -> str:
    data = msgspec.json.encode(_Token(CONTINUE_FORMAT, version, start))
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _read_token(text: str) -> _Token:
    padded = text + "=" * (-len(text) % 4)
    try:
        token = msgspec.json.decode(base64.urlsafe_b64decode(padded), type=_Token)
    except (binascii.Error, msgspec.DecodeError, UnicodeDecodeError, ValueError) as error:
        raise bad_request(f"invalid continue token: continue key is not valid: {error}") from error
    if token.v != CONTINUE_FORMAT or not token.rv or not token.start:
        raise bad_request("invalid continue token: continue key is not valid")
    return token
