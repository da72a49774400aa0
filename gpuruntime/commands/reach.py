"""Verbs that reach into running units through the gateway."""

import asyncio
import os
import re
import webbrowser
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from html import escape
from pathlib import Path
from typing import Final

from gpuruntime.client import waiting
from gpuruntime.client.errors import (
    CutOffError,
    FailedError,
    LostAnswerError,
    ProblemError,
    UnreadableAnswerError,
    UnusableInputError,
)
from gpuruntime.client.processes import Process, TerminalSize
from gpuruntime.commands import raw_terminal
from gpuruntime.commands.exit_codes import ExitCode
from gpuruntime.commands.progress import Before, Progress
from gpuruntime.commands.session import Session
from gpuruntime.commands.standard_streams import read_some, write_all
from gpuruntime.concurrency.tasks import task_group
from gpuruntime.errors import ConfigurationError
from gpuruntime.models.kinds.templates import PortProtocol
from gpuruntime.models.requests.tickets import CreateTicket, Use
from gpuruntime.models.views.units import UnitView

_PIECE_BYTES: Final = 32 * 1024
_PORT_NAME: Final = re.compile(r"[a-z0-9-]*[a-z][a-z0-9-]*")
LAST_PORT: Final = 65_535
_REMEDIES: Final = {
    "gateway_off": "ask the operator of the API for a gateway",
    "exec_off": "only its ports are reached: `units open`, `units forward`",
    "unit_suspended": "`gpuruntime units resume {name} --wait` runs it again",
    "unit_waking": "wait for it by `gpuruntime units wait {name}`",
    "revocation_unknown": "the gateway does not see the cluster: try again in a minute",
    "too_many_connections": "end some sessions, or try again later",
}


async def open_port(session: Session) -> None:
    """Print the URL of a port; on a terminal, open it in a browser as well."""
    asked = session.options
    async with reaching(session, asked.name) as view:
        port = asked.port or _only_port(view)
        ticket = CreateTicket(uses=(Use.HTTP,), port=port)
        url = (await session.client.units.ticket(asked.name, ticket)).data.url
    session.terminal.answer(url)
    if session.terminal.width is not None and not asked.print:
        session.terminal.report("opening it in the browser; the URL counts once, for a minute")
        await asyncio.to_thread(_browse, url)


async def execute(session: Session) -> int:
    asked = session.options
    if not asked.words:
        raise UnusableInputError("name a program behind two dashes, or use `units shell`")
    return await _run(session, asked.words, has_input=asked.input, has_terminal=asked.tty)


async def shell(session: Session) -> int:
    """Run the login shell; without a terminal here, it reads its script from stdin."""
    is_terminal = os.isatty(session.terminal.streams[0])
    return await _run(session, (), has_input=True, has_terminal=is_terminal)


async def forward(session: Session) -> int:
    """Forward local ports until the command is ended."""
    asked, tell = session.options, session.terminal.report
    async with AsyncExitStack() as stack:
        view = await stack.enter_async_context(reaching(session, asked.name))
        for local, port in [_forward_of(each, view) for each in asked.ports]:
            opening = session.client.forward(asked.name, port, local_port=local, tell=tell)
            try:
                listens_at = await stack.enter_async_context(opening)
            except OSError as error:
                raise ConfigurationError(
                    f"port {local} of this machine: {error.strerror}: choose another one by "
                    f"LOCAL:{port}, or take any free one by :{port}"
                ) from error
            session.terminal.answer(f"127.0.0.1:{listens_at} -> port {port} of {asked.name}")
        return await raw_terminal.until_signal(_for_ever())


async def _for_ever() -> int:
    await asyncio.Event().wait()
    return ExitCode.DONE


async def wake(session: Session) -> None:
    """Resume a unit that may be woken; with `--wait`, wait until it is ready."""
    asked_at = session.terminal.now()
    view = (await session.client.units.wake(session.options.name)).data
    if session.options.wait:
        before = Before(timeline=view.timeline, asked_at=asked_at)
        progress = Progress(session.terminal, view.name, before)
        view = await waiting.until_unit_ready(
            session.client, view.name, timeout_seconds=session.options.timeout, tell=progress.unit
        )
    session.print_one(view)


@asynccontextmanager
async def reaching(session: Session, name: str) -> AsyncIterator[UnitView]:
    """Yield the unit once it is not suspended, and add remedies to errors of the block.

    A suspended unit that may be woken is woken and waited for; its condition shows as progress.
    """
    try:
        view = (await session.client.units.get(name)).data
        if view.suspended and view.access.wake:
            asked_at = session.terminal.now()
            session.terminal.report(f"unit {name} is suspended: waking it")
            view = (await session.client.units.wake(name)).data
            before = Before(timeline=view.timeline, asked_at=asked_at)
            progress = Progress(session.terminal, name, before)
            view = await waiting.until_unit_ready(session.client, name, tell=progress.unit)
            session.terminal.done_showing()
        elif view.suspended:
            words = (
                f"callers do not wake it: `gpuruntime units resume {name} --wait` runs it again"
            )
            raise FailedError(f"unit {name}", reason="it is suspended", message=words)
        yield view
    except ProblemError as error:
        if remedy := _REMEDIES.get(error.code):
            error.add_note(remedy.format(name=name))
        raise


async def _run(
    session: Session, command: Sequence[str], *, has_input: bool, has_terminal: bool
) -> int:
    stdin = session.terminal.streams[0]
    if has_terminal and not os.isatty(stdin):
        session.terminal.report("stdin is no terminal, so the program gets none")
        has_terminal = False
    size = raw_terminal.size_of(stdin) if has_terminal else None
    return await raw_terminal.until_signal(
        _attached(session, command, has_input=has_input, size=size)
    )


async def _attached(
    session: Session, command: Sequence[str], *, has_input: bool, size: TerminalSize | None
) -> int:
    """Run a program with the streams of this process, and return its exit code."""
    name = session.options.name
    async with (
        reaching(session, name),
        session.client.exec(name, command, terminal=size) as process,
    ):
        streams = _Streams(process, session.terminal.streams, has_input=has_input)
        try:
            if size is None:
                await streams.run()
            else:
                with raw_terminal.raw(session.terminal.streams[0], streams.resized):
                    await streams.run()
        except (CutOffError, UnreadableAnswerError) as error:
            session.terminal.report(f"gpuruntime {session.options.action}: {error}")
            return ExitCode.CUT_OFF
        return ExitCode.CUT_OFF if process.exit_code is None else process.exit_code


class _Streams:
    """Copies the streams of this process from and to those of a program."""

    def __init__(
        self, process: Process, streams: tuple[int, int, int], *, has_input: bool
    ) -> None:
        self._process = process
        self._in, self._out, self._err = streams
        self._has_input = has_input
        self._is_resized = asyncio.Event()

    def resized(self) -> None:
        self._is_resized.set()

    async def run(self) -> None:
        """Return when the program has ended, whatever is left of the input."""
        async with task_group() as group:
            others = [
                group.create_task(self._give_input(), name="input"),
                group.create_task(self._give_sizes(), name="sizes"),
            ]
            async for each in self._process.output():
                await write_all(self._err if each.is_error else self._out, each.data)
            for task in others:
                task.cancel()

    async def _give_input(self) -> None:
        # The output says why a program takes no more.
        with suppress(LostAnswerError):
            while self._has_input and (data := await read_some(self._in, _PIECE_BYTES)):
                await self._process.write(data)
            await self._process.end_input()

    async def _give_sizes(self) -> None:
        with suppress(LostAnswerError):
            while await self._is_resized.wait():
                self._is_resized.clear()
                await self._process.resize(raw_terminal.size_of(self._in))


def _only_port(view: UnitView) -> str:
    """Return the only declared TCP port; raise UnusableInputError if there is another number."""
    ports = [each for each in view.template.ports if each.protocol == PortProtocol.TCP]
    if len(ports) == 1:
        return str(ports[0].port)
    if not ports:
        raise UnusableInputError(
            f"unit {view.name} declares no TCP port: "
            f"`gpuruntime units update {view.name} --port NAME:NUMBER` declares one"
        )
    named = ", ".join(f"{each.port} ({each.name})" for each in ports)
    raise UnusableInputError(f"unit {view.name} has several ports: name one of {named}")


def _forward_of(text: str, view: UnitView) -> tuple[int, str]:
    """Read `[LOCAL:]PORT` as the local port, which 0 leaves to the machine, and the unit's."""
    local, colon, port = text.rpartition(":")
    numbers = {each.name: each.port for each in view.template.ports}
    number = local if colon else str(numbers.get(port, port))
    wanted = _number_of(number or "0", LAST_PORT)
    if wanted is None and number == port and _PORT_NAME.fullmatch(port):
        named = ", ".join(f"{number} ({name})" for name, number in numbers.items()) or "no ports"
        raise UnusableInputError(f"unit {view.name} has no port {port}: it declares {named}")
    if wanted is None or not port:
        raise UnusableInputError(f"{text!r} is no port such as 8080, http, 9090:8080 or :8080")
    return wanted, port


def _number_of(text: str, most: int) -> int | None:
    is_number = text.isascii() and text.isdecimal() and len(text) <= len(str(most))
    return int(text) if is_number and int(text) <= most else None


def _browse(url: str) -> None:
    """Open the URL by a file of the caller: process listings show the arguments of browsers."""
    folder = Path.home() / ".cache" / "gpuruntime"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    page = folder / "open.html"
    page.unlink(missing_ok=True)
    page.touch(mode=0o600)
    page.write_text(f'<meta http-equiv="refresh" content="0;url={escape(url)}">\n')
    webbrowser.open(page.as_uri())
