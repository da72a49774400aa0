"""Standard input and output as bytes, without threads that outlive a command.

The files stay in blocking mode, which other programs share. So each read waits until there is
something to read, and each write until a pipe takes as much.
"""

import asyncio
import os
import select
from collections.abc import Callable
from contextlib import suppress
from typing import Final

# What a pipe takes whole once it takes anything (PIPE_BUF of Linux).
_WHOLE_BYTES: Final = 4096


async def read_some(number: int, size: int) -> bytes:
    """Return what there is to read, or nothing at the end of the file."""
    loop = asyncio.get_running_loop()
    await _ready(lambda tell: loop.add_reader(number, tell), lambda: loop.remove_reader(number))
    try:
        return os.read(number, size)
    except OSError:  # the terminal is gone
        return b""


async def write_all(number: int, data: bytes) -> None:
    """Write all of it. Raise BrokenPipeError if its reader is gone."""
    loop = asyncio.get_running_loop()
    view = memoryview(data)
    while view:
        if not select.select((), (number,), (), 0)[1]:
            await _ready(
                lambda tell: loop.add_writer(number, tell), lambda: loop.remove_writer(number)
            )
        view = view[os.write(number, view[:_WHOLE_BYTES]) :]


async def _ready(add: Callable[[Callable[[], None]], None], remove: Callable[[], object]) -> None:
    ready = asyncio.Event()
    # A regular file is always ready, and the selector takes none.
    with suppress(PermissionError):
        add(ready.set)
        try:
            await ready.wait()
        finally:
            remove()
