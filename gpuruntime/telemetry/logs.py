"""The format of log lines: one event a line, JSON for machines or columns for a person."""

import logging
import sys
from typing import Any, TextIO

import structlog
from structlog.typing import Processor

# These libraries log every request at info; only their warnings are wanted.
CHATTY = ("aiohttp.access", "asyncio", "kubernetes_asyncio", "nats")


# A person reads the time of day, in the machine's own zone.
PERSONS_TIME = "%H:%M:%S"


def configure(*, level: str, is_json: bool, stream: TextIO = sys.stderr) -> None:
    """Configure logging, once per process and before the first line."""
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso" if is_json else PERSONS_TIME, utc=is_json),
        structlog.processors.format_exc_info if is_json else _as_it_is,
    ]
    renderer: Processor = (
        structlog.processors.JSONRenderer(default=str)
        if is_json
        else structlog.dev.ConsoleRenderer(colors=stream.isatty())
    )
    structlog.configure(
        processors=[*shared, renderer],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.WriteLoggerFactory(file=stream),
        cache_logger_on_first_use=False,
    )
    _take_over_standard_logging(level, [*shared, renderer], stream)


def _take_over_standard_logging(level: str, processors: list[Processor], stream: TextIO) -> None:
    """Give lines of libraries the same form as ours."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=processors[:-1],
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                processors[-1],
            ],
        )
    )
    logging.basicConfig(handlers=[handler], level=level.upper(), force=True)
    for name in CHATTY:
        logging.getLogger(name).setLevel(logging.WARNING)


def _as_it_is(_: Any, __: str, event: Any) -> Any:
    return event
