"""How container runtimes say that an image has no `sh`, which logins and SSH need."""

import re
from typing import Final

NO_SHELL: Final = "the image has no sh"
# As containerd, CRI-O and the embedded cluster say it.
_SHELL: Final = re.compile(r"[\"'`]sh[\"'`]")
_MISSING: Final = re.compile(r"not found|no such file", re.IGNORECASE)


def says_no_shell(words: str) -> bool:
    """Return whether a runtime's words about a failed start name `sh` as missing."""
    return bool(_SHELL.search(words) and _MISSING.search(words))
