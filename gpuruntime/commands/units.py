"""Verbs of units."""

from functools import partial

from gpuruntime.client import waiting
from gpuruntime.client.units import UnitFilter
from gpuruntime.commands import bodies
from gpuruntime.commands.exit_codes import ExitCode
from gpuruntime.commands.progress import Progress
from gpuruntime.commands.session import Session
from gpuruntime.models.views.units import EventView, Lifecycle, UnitView


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
    asked = session.options
    await session.print_view(
        lambda: session.client.units.get(asked.name, lifecycle=asked.lifecycle)
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
            "template": bodies.template_of(asked.words, asked.port, asked.env),
            "storageMounts": bodies.mounts_of(asked.mount),
            "serverless": {"requestID": asked.function} if asked.function else None,
        },
    )
    bodies.demand(document, "specName", "image")
    made = await session.create(session.client.units.create, document)
    await _settled(session, made)


async def update(session: Session) -> None:
    asked = session.options
    change = bodies.body_of(asked.file, {"image": asked.image})
    reply = await session.client.units.update(asked.name, change, if_match=asked.if_match)
    await _settled(session, reply.data)


async def suspend(session: Session) -> None:
    await _settled(session, (await session.client.units.suspend(session.options.name)).data)


async def resume(session: Session) -> None:
    await _settled(session, (await session.client.units.resume(session.options.name)).data)


async def delete(session: Session) -> ExitCode:
    return await session.delete("unit", session.client.units.delete, waiting.until_unit_gone)


async def wait(session: Session) -> None:
    name = session.options.name
    if session.options.state == "deleted":
        await session.wait_until_deleted("unit", waiting.until_unit_gone)
        return
    session.print_one(
        await _awaited(session, name, is_suspended=session.options.state == "suspended")
    )


async def logs(session: Session) -> None:
    asked = session.options
    async with session.client.units.log(
        asked.name, tail=asked.tail, follow=asked.follow, container=asked.container
    ) as pieces:
        async for piece in pieces:
            session.terminal.piece(piece)


async def events(session: Session) -> None:
    found = [each async for each in session.client.units.events(session.options.name)]
    session.print_many(EventView, found)


async def _listed(session: Session, only: UnitFilter) -> None:
    read = partial(session.client.units.list, only)
    await session.print_list(UnitView, read, lambda view: f"{view.namespace}/{view.name}")


async def _settled(session: Session, view: UnitView) -> None:
    """Print the unit; with `--wait`, once it is ready, or suspended if it should be."""
    if session.options.wait:
        view = await _awaited(session, view.name, is_suspended=view.suspended)
    session.print_one(view)


async def _awaited(session: Session, name: str, *, is_suspended: bool) -> UnitView:
    until = waiting.until_unit_suspended if is_suspended else waiting.until_unit_ready
    progress = Progress(session.terminal, name)
    return await until(
        session.client, name, timeout_seconds=session.options.timeout, tell=progress.unit
    )
