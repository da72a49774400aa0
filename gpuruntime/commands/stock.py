"""Verbs of stock and of pools."""

from typing import Any

from gpuruntime.client import waiting
from gpuruntime.commands import bodies
from gpuruntime.commands.exit_codes import ExitCode
from gpuruntime.commands.progress import Progress
from gpuruntime.commands.session import Session
from gpuruntime.models.views.operators import Job
from gpuruntime.models.views.pools import PoolView


async def seed(session: Session) -> None:
    asked = session.options
    flags = {"operationID": asked.operation, "name": asked.name, **_envelope(asked)}
    document = bodies.body_of(asked.file, flags)
    bodies.demand(document, "specName", "replicas")
    made = await session.create(session.client.stock.seed, document, what="pool")
    session.print_one(await _seeded(session, made) if asked.wait else made)


async def jobs(session: Session) -> None:
    session.print_many(Job, [each async for each in session.client.stock.jobs()])


async def job(session: Session) -> None:
    operation = session.options.operation
    await session.print_view(lambda: session.client.stock.job(operation))


async def wait(session: Session) -> None:
    found = await session.client.stock.job(session.options.operation)
    session.print_one(await _seeded(session, found.data))


async def list_pools(session: Session) -> None:
    await session.print_list(PoolView, session.client.pools.list, lambda view: view.name)


async def get_pool(session: Session) -> None:
    name = session.options.name
    await session.print_view(lambda: session.client.pools.get(name))


async def create_pool(session: Session) -> None:
    asked = session.options
    document = bodies.body_of(
        asked.file,
        {
            "operationID": asked.operation,
            "name": asked.name,
            **_envelope(asked),
            "image": asked.image,
            "refill": asked.refill,
        },
    )
    bodies.demand(document, "specName", "replicas")
    made = await session.create(session.client.pools.create, document, what="pool")
    await _settled(session, made)


async def update_pool(session: Session) -> None:
    asked = session.options
    flags = {"replicas": asked.replicas, "image": asked.image, "refill": asked.refill}
    change = bodies.body_of(asked.file, flags)
    reply = await session.client.pools.update(asked.name, change, if_match=asked.if_match)
    await _settled(session, reply.data)


async def delete_pools(session: Session) -> ExitCode:
    return await session.delete("pool", session.client.pools.delete, waiting.until_pool_gone)


async def wait_for_pool(session: Session) -> None:
    name = session.options.name
    if session.options.state == "deleted":
        await session.wait_until_deleted("pool", waiting.until_pool_gone)
        return
    session.print_one(await _ready(session, name))


def _envelope(asked: Any) -> dict[str, Any]:
    return {
        "specName": asked.spec,
        "replicas": asked.replicas,
        "cpu": asked.cpu,
        "memory": asked.memory,
        "gpu": asked.gpu,
        "gpuProduct": asked.gpu_product,
    }


async def _settled(session: Session, view: PoolView) -> None:
    session.print_one(await _ready(session, view.name) if session.options.wait else view)


async def _ready(session: Session, name: str) -> PoolView:
    progress = Progress(session.terminal, name)
    return await waiting.until_pool_ready(
        session.client, name, timeout_seconds=session.options.timeout, tell=progress.state
    )


async def _seeded(session: Session, job: Job) -> Job:
    progress = Progress(session.terminal, job.operationID)
    return await waiting.until_seeded(
        session.client,
        job.operationID,
        timeout_seconds=session.options.timeout,
        tell=progress.job,
    )
