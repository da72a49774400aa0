"""Moments as Kubernetes writes them: whole seconds for Time, exactly six digits for MicroTime."""

from datetime import UTC, datetime
from typing import Annotated, Final, TypeAlias

MICROSECONDS: Final = "microseconds"

# A field of this type is written with six digits, also when they are all zero: the API server
# refuses a MicroTime of any other length.
MicroTime: TypeAlias = Annotated[datetime, MICROSECONDS]


def rfc3339(moment: datetime) -> str:
    """Seconds, cut and never rounded up: a written moment does not lie in the future."""
    return f"{_utc(moment).isoformat(timespec='seconds')}Z"


def rfc3339_micro(moment: datetime) -> str:
    return f"{_utc(moment).isoformat(timespec='microseconds')}Z"


def moment_of(text: str) -> datetime | None:
    """Of what anybody may have written: None for what is no moment, or is none everywhere."""
    try:
        moment = datetime.fromisoformat(text)
        return moment.astimezone(UTC) if moment.tzinfo else None
    except (ValueError, OverflowError):
        return None


def _utc(moment: datetime) -> datetime:
    """Without its time zone, which each form writes as Z."""
    if moment.tzinfo is None:
        raise ValueError(f"moment {moment} has no time zone: use an aware datetime")
    return moment.astimezone(UTC).replace(tzinfo=None)
