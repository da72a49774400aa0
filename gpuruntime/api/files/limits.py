"""Limits of file transfers: size, time and number."""

import attrs


@attrs.frozen(kw_only=True, slots=True)
class FileLimits:
    """Limits of files; `most_bytes` bounds each body, in either direction.

    `at_once` is for one process, `at_once_each` for each caller that it knows.
    """

    most_bytes: int
    idle_seconds: float
    longest_seconds: float
    connect_seconds: float = 5.0
    at_once: int
    at_once_each: int
