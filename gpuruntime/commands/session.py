"""The context of every command: client, terminal and options, and how it prints views."""

import argparse
import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final, Protocol, TypeVar

import attrs

from gpuruntime.client.client import Client
from gpuruntime.client.errors import (
    Certainty,
    ClientError,
    ConflictError,
    InvalidRequestError,
    NotFoundError,
    ProblemError,
)
from gpuruntime.client.messages import Reply
from gpuruntime.client.requests import named
from gpuruntime.commands import bodies, tables, values
from gpuruntime.commands.exit_codes import ExitCode
from gpuruntime.commands.terminal import Terminal
from gpuruntime.models.encoding.json import JsonObject
from gpuruntime.settings.client import ClientSettings

ViewT = TypeVar("ViewT")
ReadT = TypeVar("ReadT")

WATCH_SECONDS: Final = 2.0
_DOCUMENTS: Final[dict[str, Callable[[Any], str]]] = {
    "json": values.as_json,
    "yaml": values.as_yaml,
}


class UntilGone(Protocol):
    """A function of `client.waiting` that waits until an object of its kind is deleted."""

    async def __call__(self, client: Client, name: str, *, timeout_seconds: float) -> None: ...


@attrs.frozen(kw_only=True, slots=True)
class Session:
    client: Client
    terminal: Terminal
    options: argparse.Namespace
    settings: ClientSettings

    def print_one(self, view: Any, *, in_full: bool = False) -> None:
        if self.options.output in _DOCUMENTS:
            self.terminal.answer(_DOCUMENTS[self.options.output](view))
        elif in_full:
            self.terminal.answer(tables.details(view, self.terminal.now()), is_table=True)
        else:
            self.print_many(type(view), [view])

    def print_many(self, model: type, views: Iterable[Any]) -> None:
        if self.options.output in _DOCUMENTS:
            self.terminal.answer(_DOCUMENTS[self.options.output](list(views)))
            return
        now, width = self.terminal.now(), self.terminal.width
        self.terminal.answer(tables.table(model, views, now, width), is_table=True)

    @contextmanager
    def with_id(self, flag: str, identity: object) -> Iterator[None]:
        """Add the id to an error with uncertain outcome, so that the request can be sent again."""
        try:
            yield
        except ClientError as error:
            if error.certainty is Certainty.UNKNOWN:
                error.add_note(f"it may have been done: send it again with {flag} {identity}")
            raise

    async def create(
        self,
        make: Callable[[JsonObject], Awaitable[Reply[ViewT]]],
        document: JsonObject,
        what: str,
    ) -> ViewT:
        """Create an object by an operation with an id; report a replay, which created nothing.

        If the API refuses a name that was made here, it names the object itself. Another operation
        may have that name, or the same operation was sent without one before.
        """
        asked = named(document, "operationID")
        operation = asked["operationID"]
        with self.with_id("--operation", operation):
            try:
                reply = await make(bodies.with_name(asked, what))
            except (ConflictError, InvalidRequestError) as error:
                if "name" in asked or not _may_be_about_the_name(error):
                    raise
                reply = await make(asked)
        if reply.is_replay:
            self.terminal.report(f"operation {operation} was done before")
        return reply.data

    async def delete(
        self, what: str, delete: Callable[[str], Awaitable[object]], until_gone: UntilGone
    ) -> ExitCode:
        """Delete every named object and report each; with `--wait`, once it is really deleted."""

        async def delete_one(name: str) -> None:
            await delete(name)
            if self.options.wait:
                await until_gone(self.client, name, timeout_seconds=self.options.timeout)
            self.terminal.report(f"{what} {name} is deleted")

        return await self.each(self.options.names, delete_one)

    async def each(self, names: Iterable[str], act: Callable[[str], Awaitable[None]]) -> ExitCode:
        """Act on every name. A miss or a conflict is reported, and the other names follow."""
        code = ExitCode.DONE
        for name in names:
            try:
                await act(name)
            except (NotFoundError, ConflictError) as error:
                self.terminal.report(f"gpuruntime {self.options.action}: {error}")
                code = ExitCode.REFUSED
        return code

    async def wait_until_deleted(self, what: str, until_gone: UntilGone) -> None:
        name = self.options.name
        await until_gone(self.client, name, timeout_seconds=self.options.timeout)
        self.terminal.report(f"{what} {name} is deleted")

    async def print_list(
        self, model: type, read: Callable[[], AsyncIterator[Any]], key: Callable[[Any], str]
    ) -> None:
        """Print a list once; with `--watch`, keep printing what has changed."""

        async def read_all() -> dict[str, Any]:
            return {key(view): view async for view in read()}

        seen = await read_all()
        self.print_many(model, seen.values())
        while getattr(self.options, "watch", False):
            now = await self._later(read_all)
            for name in sorted(seen):
                if name not in now or _created_at(now[name]) != _created_at(seen[name]):
                    self.terminal.report(f"{name} is gone")
            for name, view in now.items():
                if seen.get(name) != view:
                    self._change(view)
            seen = now

    async def print_view(
        self,
        read: Callable[[], Awaitable[Reply[Any]]],
        then: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """Print a view and what follows it; with `--watch`, print the view after every change."""
        view = (await read()).data
        self.print_one(view, in_full=True)
        if then:
            await then()
        while getattr(self.options, "watch", False):
            before, view = view, (await self._later(read)).data
            if view != before:
                self._change(view)

    async def _later(self, read: Callable[[], Awaitable[ReadT]]) -> ReadT:
        """Read after a pause. While the server is away, report that once and read again."""
        is_away = False
        while True:
            await asyncio.sleep(WATCH_SECONDS)
            try:
                found = await read()
            except ClientError as error:
                if error.certainty is Certainty.ANSWERED:
                    raise
                if not is_away:
                    self.terminal.report(f"{error}; watching for its return")
                is_away = True
            else:
                if is_away:
                    self.terminal.report("the server answers again")
                return found

    def _change(self, view: Any) -> None:
        if self.options.output in _DOCUMENTS:
            self.terminal.answer(_DOCUMENTS[self.options.output](view))
        else:
            row = tables.row(view, self.terminal.now(), self.terminal.width)
            self.terminal.answer(row, is_table=True)


def _may_be_about_the_name(error: ProblemError) -> bool:
    is_invalid = any(detail.field == "name" for detail in error.details)
    return is_invalid or error.code in ("name_taken", "operation_conflict")


def _created_at(view: Any) -> object:
    """Return the moment that tells an object from a later one of its name."""
    return getattr(view, "createdAt", None)
