"""Log lines of a function: each has its time, and within a call its invocation and attempt."""

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

from gpuruntime.framework.calls import Call

FORMAT: Final = "%(asctime)s %(levelname)s %(call)s%(message)s"

# Threads of plain functions get a copy of the context.
_call: ContextVar[Call | None] = ContextVar("call", default=None)


@contextmanager
def calling(call: Call) -> Iterator[None]:
    """Mark the log lines of the context with the call."""
    token = _call.set(call)
    try:
        yield
    finally:
        _call.reset(token)


def format_lines() -> None:
    """Write log lines from level INFO to stderr, unless the function has set up logging."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter(FORMAT))
    handler.addFilter(add_call)
    logging.basicConfig(handlers=[handler], level=logging.INFO)


def add_call(record: logging.LogRecord) -> bool:
    """Add the call to the record. Return True, because a filter drops the line otherwise."""
    call = _call.get()
    record.call = f"[{call.invocationID} attempt {call.attempt}] " if call else ""
    return True
