"""Commands as somebody types them, run inside the test, and what they would have read."""

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
    """A terminal, as far as anybody can tell."""

    def isatty(self) -> bool:
        return True


@attrs.frozen
class Said:
    code: int
    out: str
    err: str


def now() -> datetime:
    return START + timedelta(seconds=asyncio.get_running_loop().time())


async def asked(
    words: str, server: str, *, is_screen: bool = False, stream: io.StringIO | None = None
) -> Said:
    """`words` is what stands behind the program's name; a stream is for all that is said."""
    kind = Screen if is_screen else io.StringIO
    out, err = stream or kind(), stream or kind()
    options = parser().parse_args(shlex.split(words))
    settings = client_settings.load(vars(options), environment={"GPURUNTIME_SERVER": server})
    code = await perform(options, settings, Terminal(out=out, err=err, now=now))
    return Said(code, out.getvalue(), err.getvalue())
