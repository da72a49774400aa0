"""Bounded reads: what a connection may bring before its reader can pause it."""

import asyncio
from typing import Final

READ_BYTES: Final = 64 * 1024


def bound_reads(transport: asyncio.BaseTransport | None) -> None:
    """Let one read bring at most READ_BYTES, where asyncio takes 256 KiB.

    A reader that pauses its connection still gets what the last read brought.
    """
    if transport is not None and hasattr(transport, "max_size"):
        transport.max_size = READ_BYTES
