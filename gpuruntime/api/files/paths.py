"""Checks of paths below a storage, and of the destinations of moved files.

A path is sent on byte for byte. It is refused if a later server could read it as a way out of the
storage, however often it is encoded, or if it is not a valid name.
"""

import re
from typing import Final
from urllib.parse import unquote_to_bytes

from gpuruntime.models.kinds.file_servers import files_path
from gpuruntime.strict.structure import Problem, StrictError

DESTINATION: Final = "Destination"
# A name that is encoded more often than this is refused.
_MOST_DECODINGS: Final = 4
_BROKEN_ESCAPE: Final = re.compile(r"%(?![0-9A-Fa-f]{2})")
_NEVER_IN_A_NAME: Final = re.compile(r"[/\\\x00-\x1f\x7f]")
_ABSOLUTE: Final = re.compile(r"https?://(?P<host>[^/?#@]+)(?P<path>/.*)", re.IGNORECASE)


def target_of(raw: str, storage: str, *, is_change: bool = False) -> str:
    """Return path and query as they were sent, or raise StrictError.

    A change has to name something below the storage itself.
    """
    fault = _fault_of(raw.partition("?")[0], files_path(storage), is_change=is_change)
    if "#" in raw:
        fault = "has a fragment: write the character as %23"
    if fault:
        raise StrictError((Problem(field="path", message=fault),))
    return raw


def is_below(location: str, storage: str) -> bool:
    """Return whether a redirect stays within the storage."""
    return not _fault_of(location.partition("?")[0], files_path(storage), is_change=False)


def destination_of(value: str, storage: str, host: str) -> str:
    """Return the path of a Destination; raise StrictError unless it is below the same storage."""
    absolute = _ABSOLUTE.fullmatch(value)
    path = absolute["path"] if absolute else value
    fault = _fault_of(path, files_path(storage), is_change=True)
    if absolute and absolute["host"].lower() != host.lower():
        fault = f"is on another host than {host}: name the path alone"
    elif "?" in value or "#" in value:
        fault = "has a query or a fragment: name the path alone"
    if fault:
        raise StrictError((Problem(field=DESTINATION, message=fault),))
    return path


def _fault_of(path: str, prefix: str, *, is_change: bool) -> str:
    """Return "" for a path below the prefix that every server reads in the same way, else the
    fault.
    """
    if path != prefix and not path.startswith(f"{prefix}/"):
        return f"must be below {prefix}/, without escapes in that part"
    parts = path.removeprefix(prefix).split("/")[1:]
    if parts and not parts[-1]:  # the path of a folder
        parts.pop()
    if is_change and not parts:
        return "names the storage itself: name a path below it"
    return next((fault for part in parts if (fault := _fault_of_part(part))), "")


def _fault_of_part(part: str) -> str:
    if not part:
        return "has an empty part between two slashes"
    text = part
    for _ in range(_MOST_DECODINGS):
        if text in (".", ".."):
            return "leads out of the storage: leave out the parts . and .."
        if _NEVER_IN_A_NAME.search(text):
            return "has a slash, a backslash or a control character in a name"
        decoded = _decoded(text)
        if decoded is None and text == part:
            return "has an escape that is malformed or not UTF-8: write a percent sign as %25"
        if decoded in (None, text):
            return ""
        text = decoded
    return "is encoded repeatedly: encode it once"


def _decoded(text: str) -> str | None:
    """Return the decoded text, or None if it is not valid percent-encoded UTF-8."""
    if _BROKEN_ESCAPE.search(text):
        return None
    try:
        return unquote_to_bytes(text).decode()
    except UnicodeError:
        return None
