"""Durations as people write them: seconds, or a number with a unit."""

import re
from typing import Final, NewType

Seconds = NewType("Seconds", float)

_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)")
_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


def parse_duration(value: object) -> Seconds:
    if type(value) in (int, float):
        seconds = float(value)  # type: ignore[arg-type]  # narrowed by its exact type
    elif isinstance(value, str) and (match := _DURATION.fullmatch(value)):
        seconds = float(match[1]) * _UNITS[match[2]]
    else:
        raise ValueError('must be seconds or a duration such as "30s" or "10m"')
    if not 0 < seconds < 1e9:
        raise ValueError("must be above 0 s and below thirty years")
    return Seconds(seconds)
