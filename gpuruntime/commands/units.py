"""Verbs of units."""

import argparse
from collections.abc import Awaitable
from functools import partial
from math import ceil
from typing import Final

from gpuruntime.client import waiting
from gpuruntime.client.messages import Reply
from gpuruntime.client.units import LogFilter, UnitFilter
from gpuruntime.commands import bodies
from gpuruntime.commands.exit_codes import ExitCode
from gpuruntime.commands.progress import Before, Progress
from gpuruntime.commands.session import Session
from gpuruntime.models.encoding.json import JsonObject
from gpuruntime.models.views.units import EventView, Lifecycle, UnitView

# How many Events `get` shows; `events` shows all.
LATEST_EVENTS: Final = 10
# How long a unit has to stay ready, so that a container that ends at its start does not count.
STABLE_SECONDS: Final = 5.0


async def list_units(session: Session) -> None:
    asked = session.options
    await _listed(
        session,
        UnitFilter(
            phase=asked.phase or "",
            specName=asked.spec or "",
            lifecycle=asked.lifecycle or "",
            tenant=asked.tenant or "",
        ),
    )


async def list_stock(session: Session) -> None:
    asked = session.options
    only = UnitFilter(
        phase=asked.phase or "", specName=asked.spec or "", lifecycle=Lifecycle.STOCK
    )
    await _listed(session, only)


async def get(session: Session) -> None:
    """Print the unit, and in words its latest Events, which only active units have."""
    asked, units = session.options, session.client.units

    async def print_events() -> None:
        if asked.output == "table" and asked.lifecycle == Lifecycle.INSTANCE:
            page = await units.event_page(asked.name, limit=LATEST_EVENTS)
            if page.items:
                session.terminal.answer("")
                session.print_many(EventView, page.items)

    await session.print_view(
        lambda: units.get(asked.name, lifecycle=asked.lifecycle), then=print_events
    )


async def get_stock(session: Session) -> None:
    name = session.options.name
    await session.print_view(lambda: session.client.units.get(name, lifecycle=Lifecycle.STOCK))


async def create(session: Session) -> None:
    asked = session.options
    document = bodies.body_of(
        asked.file,
        {
            "operationID": asked.operation,
            "name": asked.name,
            "specName": asked.spec,
            "image": asked.image,
            "tenant": asked.tenant,
            "template": _template_of(asked),
            "access": bodies.access_of(asked.ssh_key, asked.wake),
            "storageMounts": bodies.mounts_of(asked.mount),
            "imagePullSecrets": asked.pull_secret,
            "serverless": {"requestID": asked.function} if asked.function else None,
        },
    )
    bodies.demand(document, "specName", "image")
    made = await session.create(session.client.units.create, document, what="unit")
    await _settled(session, made, Progress(session.terminal, made.name))


async def update(session: Session) -> None:
    asked = session.options
    flags = {
        "image": asked.image,
        "storageMounts": bodies.mounts_of(asked.mount),
        "imagePullSecrets": asked.pull_secret,
    }
    document = bodies.body_of(asked.file, flags)
    nested = {
        "template": _template_of(asked),
        "access": bodies.access_of(asked.ssh_key, asked.wake),
        "serverless": {"requestID": asked.function} if asked.function else None,
    }
    if_match = asked.if_match
    if any(nested.values()):
        # The API replaces a nested member whole, so its other members are sent as they are.
        before = await session.client.units.get(asked.name)
        if_match = if_match or before.etag
        document = bodies.merged(document, nested, before.data)
    await _changed(session, session.client.units.update(asked.name, document, if_match=if_match))


async def suspend(session: Session) -> None:
    await _changed(session, session.client.units.suspend(session.options.name))


async def resume(session: Session) -> None:
    await _changed(session, session.client.units.resume(session.options.name))


async def delete(session: Session) -> ExitCode:
    return await session.delete("unit", session.client.units.delete, waiting.until_unit_gone)


async def wait(session: Session) -> None:
    name = session.options.name
    if session.options.state == "deleted":
        await session.wait_until_deleted("unit", waiting.until_unit_gone)
        return
    is_suspended = session.options.state == "suspended"
    progress = Progress(session.terminal, name)
    session.print_one(await _awaited(session, name, progress, is_suspended=is_suspended))


async def logs(session: Session) -> None:
    asked = session.options
    only = LogFilter(
        tail=asked.tail,
        follow=asked.follow,
        container=asked.container,
        sinceSeconds=None if asked.since is None else ceil(asked.since),
        previous=asked.previous,
        timestamps=asked.timestamps,
    )
    async with session.client.units.log(asked.name, only) as pieces:
        async for piece in pieces:
            session.terminal.piece(piece)


async def events(session: Session) -> None:
    found = [each async for each in session.client.units.events(session.options.name)]
    session.print_many(EventView, found)


async def create_ticket(session: Session) -> None:
    asked = session.options
    seconds = {} if asked.seconds is None else {"seconds": asked.seconds}
    ticket = {"uses": asked.use, "port": asked.port, "label": asked.label, **seconds}
    reply = await session.client.units.ticket(asked.name, ticket)
    session.print_one(reply.data, in_full=True)


async def revoke_tickets(session: Session) -> None:
    reply = await session.client.units.revoke_tickets(session.options.name)
    session.print_one(reply.data)


def _template_of(asked: argparse.Namespace) -> JsonObject | None:
    return bodies.template_of(
        asked.words,
        asked.port,
        asked.env,
        secret_envs=asked.env_secret,
        secret_files=asked.file_secret,
    )


async def _listed(session: Session, only: UnitFilter) -> None:
    read = partial(session.client.units.list, only)
    await session.print_list(UnitView, read, lambda view: f"{view.namespace}/{view.name}")


async def _changed(session: Session, change: Awaitable[Reply[UnitView]]) -> None:
    """Change the unit; of its progress, show only the steps that follow the change."""
    asked_at = session.terminal.now()
    view = (await change).data
    before = Before(timeline=view.timeline, asked_at=asked_at)
    await _settled(session, view, Progress(session.terminal, view.name, before))


async def _settled(session: Session, view: UnitView, progress: Progress) -> None:
    """Print the unit; with `--wait`, once it is ready, or suspended if it should be."""
    if session.options.wait:
        view = await _awaited(session, view.name, progress, is_suspended=view.suspended)
    session.print_one(view)


async def _awaited(
    session: Session, name: str, progress: Progress, *, is_suspended: bool
) -> UnitView:
    progress.stable_seconds = 0.0 if is_suspended else STABLE_SECONDS
    return await (waiting.until_unit_suspended if is_suspended else waiting.until_unit_ready)(
        session.client,
        name,
        timeout_seconds=session.options.timeout,
        stable_seconds=progress.stable_seconds,
        tell=progress.unit,
    )
