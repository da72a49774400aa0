"""Timestamps as Kubernetes writes them: whole seconds for Time, six digits for MicroTime."""

from datetime import UTC, datetime
from typing import Annotated, Final, TypeAlias

MICROSECONDS: Final = "microseconds"

# A field of this type is always written with six digits, even if all are zero. The API server
# rejects a MicroTime of any other length.
MicroTime: TypeAlias = Annotated[datetime, MICROSECONDS]


def rfc3339(moment: datetime) -> str:
    """Return whole seconds, cut and never rounded up, so that they are not in the future."""
    return f"{_utc(moment).isoformat(timespec='seconds')}Z"


def rfc3339_micro(moment: datetime) -> str:
    return f"{_utc(moment).isoformat(timespec='microseconds')}Z"


def moment_of(text: str) -> datetime | None:
    """Return the time that a text of any origin states, or None if it states none with a zone."""
    try:
        moment = datetime.fromisoformat(text)
        return moment.astimezone(UTC) if moment.tzinfo else None
    except (ValueError, OverflowError):
        return None


def _utc(moment: datetime) -> datetime:
    """Return UTC without its time zone, which both forms write as Z."""
    if moment.tzinfo is None:
        raise ValueError(f"moment {moment} has no time zone: use an aware datetime")
    return moment.astimezone(UTC).replace(tzinfo=None)
