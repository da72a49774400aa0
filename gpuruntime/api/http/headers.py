"""Headers that routes share: If-Match, and the one that marks an answer as a replay."""

import re
from collections.abc import Mapping
from typing import Final

from aiohttp import hdrs, web

from gpuruntime.strict.structure import Problem, StrictError

IF_MATCH: Final[Mapping[str, str]] = {
    str(hdrs.IF_MATCH): "ETags: the object must have one of them, else the answer is 412."
}
_TAGS = re.compile(r'\s*((?:W/)?"[!#-~]*")\s*(?:,|$)')
_REPLAY: Final = "Idempotent-Replay"
REPLAYED: Final = {_REPLAY: "true"}
# For routes that answer a new and a replayed operation with the same status.
NEW: Final = {_REPLAY: "false"}
MEANING_OF_REPLAY: Final = {_REPLAY: "`true`: the operation had been done before."}


def if_match(request: web.Request) -> tuple[str, ...] | None:
    """Return the ETags, or None if any version will do.

    A weak ETag stays in the list, and matches none of ours.
    """
    header = ",".join(request.headers.getall(hdrs.IF_MATCH, ())).strip()
    if hdrs.IF_MATCH not in request.headers or header == "*":
        return None
    tags, place = [], 0
    while found := _TAGS.match(header, place):
        tags.append(found[1])
        place = found.end()
        if place == len(header) and not header.endswith(","):
            return tuple(tags)
    message = "must be * or a list of ETags in double quotes"
    raise StrictError((Problem(field=hdrs.IF_MATCH, message=message),))
