"""The file of ticket keys is read strictly, and again whenever it changes, without a restart."""

import base64
import binascii
import re
import time
from datetime import datetime
from functools import partial
from typing import Any, Final, NewType

import attrs

from gpuruntime.meter import Meter
from gpuruntime.roles.reloaded_file import ReloadedFile
from gpuruntime.settings.checks import refuse
from gpuruntime.strict.structure import FieldError, StrictReader
from gpuruntime.strict.yaml_documents import document_of
from gpuruntime.tickets.keys import KEY_ID, KeyRing, TicketKey

WHAT: Final = "ticket key file"
MOST_KEYS: Final = 32
FEWEST_SECRET_BYTES: Final = 32
Secret = NewType("Secret", bytes)
Moment = NewType("Moment", datetime)
_ID: Final = re.compile(KEY_ID)


@attrs.frozen(kw_only=True, slots=True)
class KeyEntry:
    id: str
    secret: Secret = attrs.field(repr=False)
    until: Moment | None = None

    def __attrs_post_init__(self) -> None:
        is_sound = _ID.fullmatch(self.id) is not None
        refuse(("id", not is_sound, "must be 1 to 64 letters, digits, '.', '_' and '-'"))

    @property
    def key(self) -> TicketKey:
        until = self.until.timestamp() if self.until else None
        return TicketKey(id=self.id, secret=self.secret, until=until)


@attrs.frozen(kw_only=True, slots=True)
class KeyDocument:
    keys: tuple[KeyEntry, ...]

    def __attrs_post_init__(self) -> None:
        ids = [entry.id for entry in self.keys]
        twice = next((index for index, each in enumerate(ids) if each in ids[:index]), 0)
        refuse(
            ("keys", not ids, "is empty: the first key signs"),
            ("keys", len(ids) > MOST_KEYS, f"are more than {MOST_KEYS}"),
            (f"keys[{twice}].id", bool(twice), "occurs twice"),
        )
        if self.keys and self.keys[0].until is not None:
            raise FieldError("keys[0].until", "must be left out: the first key signs")


class TicketKeyFile:
    """The keys of one process. The file may be missing at the start: then there are none.

    Raise ConfigurationError if it is there and invalid.
    """

    def __init__(self, path: str, meter: Meter) -> None:
        self._file: ReloadedFile[KeyRing | None] = ReloadedFile(
            path, partial(keys_in, path=path), what=WHAT, absent=lambda: None
        )
        self._meter = meter

    def ring(self) -> KeyRing | None:
        return self._file.value

    async def run(self) -> None:
        """Reload the file when it changes. If it is invalid, the last good one stays."""
        await self._file.run(self._report)

    def _report(self) -> None:
        ring, now = self._file.value, time.time()
        others = ring.keys[1:] if ring else ()
        valid = sum(key.is_valid(now) for key in others)
        states = {
            "signing": 1 if ring else 0,
            "verifying": valid,
            "expired": len(others) - valid,
            "broken": int(self._file.is_broken),
        }
        for state, count in states.items():
            self._meter.gauge("ticket_keys", float(count), state=state)


def keys_in(content: bytes, path: str) -> KeyRing:
    """Return the keys. Raise ConfigurationError with every fault, but without any secret."""
    document = document_of(content, f"{WHAT} {path}", _reader, KeyDocument)
    return KeyRing(tuple(entry.key for entry in document.keys))


def _secret(value: Any) -> bytes:
    try:
        secret = base64.b64decode(value, validate=True) if isinstance(value, str) else b""
    except (binascii.Error, ValueError):
        secret = b""
    if len(secret) < FEWEST_SECRET_BYTES:
        raise ValueError(f"must be base64 of at least {FEWEST_SECRET_BYTES} random bytes")
    return secret


def _moment(value: Any) -> datetime:
    try:
        moment = datetime.fromisoformat(value) if isinstance(value, str) else value
    except ValueError:
        moment = None
    if not isinstance(moment, datetime) or moment.tzinfo is None:
        raise ValueError("must be a moment with its zone, such as 2026-12-01T00:00:00Z")
    return moment


_reader = StrictReader({Secret: _secret, Moment: _moment})
