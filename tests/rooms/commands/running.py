"""Commands as a person types them, run inside the test, and their output."""

import asyncio
import io
import shlex
from datetime import UTC, datetime, timedelta

import attrs

from gpuruntime.cli import parser
from gpuruntime.commands.program import perform
from gpuruntime.commands.terminal import Terminal
from gpuruntime.settings import client as client_settings

START = datetime(2026, 1, 1, tzinfo=UTC)


class Screen(io.StringIO):
    """A stream that claims to be a terminal."""

    def isatty(self) -> bool:
        return True


@attrs.frozen
class Output:
    code: int
    out: str
    err: str


def now() -> datetime:
    return START + timedelta(seconds=asyncio.get_running_loop().time())


async def run_command(
    words: str,
    server: str,
    *,
    is_screen: bool = False,
    stream: io.StringIO | None = None,
    streams: tuple[int, int, int] = (0, 1, 2),
) -> Output:
    """Run a command; `words` follow the program's name, and `stream` takes both outputs.

    `streams` are the files of a program that runs in a unit.
    """
    kind = Screen if is_screen else io.StringIO
    out, err = stream or kind(), stream or kind()
    options = parser().parse_args(shlex.split(words))
    settings = client_settings.load(vars(options), environment={"GPURUNTIME_SERVER": server})
    terminal = Terminal(out=out, err=err, now=now, streams=streams)
    code = await perform(options, settings, terminal)
    return Output(code, out.getvalue(), err.getvalue())
