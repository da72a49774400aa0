"""Keys of tickets: the first one signs, and all of them verify."""

from typing import Final

import attrs

# As a regular expression: the id is in the header of each token.
KEY_ID: Final = "[A-Za-z0-9._-]{1,64}"


@attrs.frozen(kw_only=True, slots=True)
class TicketKey:
    """A secret under the id that tokens name; it ends at `until`, in seconds of Unix time."""

    id: str
    secret: bytes = attrs.field(repr=False)
    until: float | None = None

    def is_valid(self, now: float) -> bool:
        return self.until is None or now < self.until


@attrs.frozen(slots=True)
class KeyRing:
    """A KeyRing has at least one key. The first has no end, so that one always signs."""

    keys: tuple[TicketKey, ...]

    @property
    def signing(self) -> TicketKey:
        return self.keys[0]

    def find(self, key_id: str, now: float) -> TicketKey | None:
        """Return the valid key of this id, or None. No other key stands in for it."""
        found = (key for key in self.keys if key.id == key_id and key.is_valid(now))
        return next(found, None)
