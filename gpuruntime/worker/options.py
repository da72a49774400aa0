"""The options of a worker. Only its limits may change while it runs."""

from typing import Final

import attrs

from gpuruntime.bus.pull import PullOptions
from gpuruntime.models.kinds.functions import Framework

_MEBIBYTE: Final = 1024 * 1024


@attrs.frozen(kw_only=True, slots=True)
class WorkerOptions:
    """`attempt_seconds` limits one attempt; `retention_seconds` is how long an end is kept.

    `ack_wait_seconds` is the ack wait of the function's consumer. `drain_seconds` is how long
    running calls may continue after the worker was told to stop. `uid` is the uid of the worker's
    unit, and `declarer` the uid of the unit that declares the function.
    """

    function: str
    name: str
    uid: str
    declarer: str
    namespace: str
    concurrency: int
    attempt_seconds: float
    max_attempts: int
    framework: Framework
    ack_wait_seconds: float
    drain_seconds: float
    retention_seconds: float
    beat_seconds: float = 5.0
    health_seconds: float = 5.0
    pull: PullOptions = PullOptions()
    most_answer_bytes: int = 4 * _MEBIBYTE
