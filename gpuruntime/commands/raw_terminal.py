"""This process's terminal in the service of a program elsewhere: raw, and restored at any end."""

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Final

from gpuruntime.client.processes import TerminalSize

_ENDING: Final = (signal.SIGTERM, signal.SIGHUP)
# As shells report the end by a signal.
_BY_SIGNAL: Final = 128


def size_of(number: int) -> TerminalSize:
    """Return the size of the terminal; one without a size is taken for 80 by 24."""
    columns, rows = os.get_terminal_size(number)
    return TerminalSize(columns=columns or 80, rows=rows or 24)


@contextmanager
def raw(number: int, resized: Callable[[], None]) -> Iterator[None]:
    """Pass every key on as it is, also Ctrl-C; call `resized` after each change of the size."""
    # Windows has neither, and all other commands run there.
    import termios  # noqa: PLC0415
    import tty  # noqa: PLC0415

    loop = asyncio.get_running_loop()
    before = termios.tcgetattr(number)

    def enter() -> None:
        # What was typed ahead is kept.
        tty.setraw(number, termios.TCSADRAIN)

    def continued() -> None:
        """Enter raw mode again after a stop, in which a shell had its own mode."""
        enter()
        resized()

    enter()
    loop.add_signal_handler(signal.SIGWINCH, resized)
    loop.add_signal_handler(signal.SIGCONT, continued)
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGWINCH)
        loop.remove_signal_handler(signal.SIGCONT)
        termios.tcsetattr(number, termios.TCSADRAIN, before)


async def until_signal(work: Awaitable[int]) -> int:
    """Return the exit code of the work. SIGTERM and SIGHUP cancel it, so that it cleans up."""
    task = asyncio.current_task()
    assert task is not None
    received: list[int] = []

    def end(number: int) -> None:
        received.append(number)
        task.cancel()

    loop = asyncio.get_running_loop()
    for number in _ENDING:
        loop.add_signal_handler(number, end, number)
    try:
        return await work
    except asyncio.CancelledError:
        if not received:
            raise
        task.uncancel()
        return _BY_SIGNAL + received[0]
    finally:
        for number in _ENDING:
            loop.remove_signal_handler(number)
