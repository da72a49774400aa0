"""Verbs of storages."""

from gpuruntime.client import waiting
from gpuruntime.commands import bodies
from gpuruntime.commands.exit_codes import ExitCode
from gpuruntime.commands.progress import Progress
from gpuruntime.commands.session import Session
from gpuruntime.models.views.storages import StorageView


async def list_storages(session: Session) -> None:
    await session.print_list(StorageView, session.client.storages.list, lambda view: view.name)


async def get(session: Session) -> None:
    name = session.options.name
    await session.print_view(lambda: session.client.storages.get(name))


async def create(session: Session) -> None:
    asked = session.options
    document = bodies.body_of(
        asked.file,
        {
            "operationID": asked.operation,
            "name": asked.name,
            "size": asked.size,
            "storageClassName": asked.storage_class,
            "prepare": {"fromStorageName": asked.copy} if asked.copy else None,
            "accessor": bodies.accessor_of(asked.files),
            "tenant": asked.tenant,
        },
    )
    bodies.demand(document, "size")
    made = await session.create(session.client.storages.create, document, what="storage")
    await _settled(session, made)


async def update(session: Session) -> None:
    asked = session.options
    flags = {"size": asked.size, "accessor": bodies.accessor_of(asked.files)}
    change = bodies.body_of(asked.file, flags)
    reply = await session.client.storages.update(asked.name, change, if_match=asked.if_match)
    await _settled(session, reply.data)


async def delete(session: Session) -> ExitCode:
    return await session.delete(
        "storage", session.client.storages.delete, waiting.until_storage_gone
    )


async def wait(session: Session) -> None:
    name = session.options.name
    if session.options.state == "deleted":
        await session.wait_until_deleted("storage", waiting.until_storage_gone)
        return
    session.print_one(await _awaited(session, name, serves_files=session.options.state == "files"))


async def recover(session: Session) -> None:
    reply = await session.client.storages.recover(session.options.name)
    await _settled(session, reply.data)


async def _settled(session: Session, view: StorageView) -> None:
    """Print the storage; with `--wait`, once it is ready and its accessor, if enabled, serves
    files.
    """
    if session.options.wait:
        view = await _awaited(session, view.name)
        if view.accessor.enabled:
            view = await _awaited(session, view.name, serves_files=True)
    session.print_one(view)


async def _awaited(session: Session, name: str, *, serves_files: bool = False) -> StorageView:
    until = waiting.until_accessor_ready if serves_files else waiting.until_storage_ready
    progress = Progress(session.terminal, name)
    tell = progress.accessor if serves_files else progress.state
    return await until(session.client, name, timeout_seconds=session.options.timeout, tell=tell)
