"""The way from stock to a running unit and its storage: python walkthrough.py [ADDRESS].

It can run again: it deletes what an earlier run has left under its names, and each run has its own
operations and its own flavour.
"""

import asyncio
import sys
import time
from collections.abc import AsyncIterator
from contextlib import suppress

import attrs

from gpuruntime.client import (
    Access,
    Accessor,
    Client,
    ClientError,
    ConflictError,
    NewStock,
    NewStorage,
    NewUnit,
    NotFoundError,
    Options,
    Port,
    Prepare,
    StorageChange,
    StorageMount,
    Template,
    UnitChange,
    connect,
    waiting,
)

RUN = str(time.time_ns())
SPEC = f"g1.{RUN}"
STOCK = NewStock(operationID=f"stock-{RUN}", specName=SPEC, memory="16Gi", gpu=1, replicas=2)
UNIT = NewUnit(
    operationID=f"unit-001-{RUN}",
    name="demo-instance",
    specName=SPEC,
    image="python:3.12",
    access=Access(primaryPort="http"),
    template=Template(
        command=("python",),
        args=("-m", "http.server", "8080"),
        ports=(Port(name="http", port=8080),),
    ),
)
STORAGE = NewStorage(
    operationID=f"storage-001-{RUN}",
    name="weights",
    size="1Gi",
    prepare=Prepare(fromImage="busybox:1.36", command=("sh", "-c", "echo hello > /storage/hello")),
)
MOUNTS = (StorageMount(name="weights", mountPath="/models"),)
PATIENCE_SECONDS = 60.0


async def walk(client: Client) -> None:
    await remove_leftovers(client)
    await claim_a_unit(client)
    await use_a_storage(client)


async def remove_leftovers(client: Client) -> None:
    """Delete what an earlier run of this or of walkthrough.sh has left."""
    for name in (UNIT.name, "second", "third"):
        with suppress(NotFoundError):
            await client.units.delete(name)
        await waiting.until_unit_gone(client, name, timeout_seconds=PATIENCE_SECONDS)
    with suppress(NotFoundError):
        await client.pools.delete("g1-demo")
    for name in ("weights-copy", STORAGE.name):
        with suppress(NotFoundError):
            await remove_storage(client, name)
        await waiting.until_storage_gone(client, name, timeout_seconds=PATIENCE_SECONDS)


async def remove_storage(client: Client, name: str) -> None:
    """Delete a storage as soon as the units that mounted it have given it up."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            try:
                await client.storages.delete(name)
                return
            except ConflictError:
                await asyncio.sleep(0.2)


async def claim_a_unit(client: Client) -> None:
    """Send each operation twice: a repeated body changes nothing, another body is a conflict."""
    await client.stock.seed(STOCK)
    assert (await client.stock.seed(STOCK)).is_replay
    try:
        await client.stock.seed(attrs.evolve(STOCK, replicas=3))
    except ConflictError as error:
        print("three instead of two:", error.code)
    job = await waiting.until_seeded(client, STOCK.operationID, timeout_seconds=PATIENCE_SECONDS)
    print("job:", job.status, "created", job.created, "ready", job.ready)

    made = await client.units.create(UNIT)
    assert (await client.units.create(UNIT)).is_replay
    ready = await waiting.until_unit_ready(
        client, made.data.name, timeout_seconds=PATIENCE_SECONDS
    )
    assert ready.sourceStock
    print("unit:", ready.accessURL, "on", ready.nodeName, "from", ready.sourceStock.name)

    await client.units.create(attrs.evolve(UNIT, operationID=f"unit-002-{RUN}", name="second"))
    third = attrs.evolve(UNIT, operationID=f"unit-003-{RUN}", name="third")
    try:
        await client.units.create(third)
    except ConflictError as error:
        print("third:", error.code)
    try:
        await client.units.get(third.name)
    except NotFoundError as error:
        print("third:", error.code)
    await client.units.delete("second")


async def use_a_storage(client: Client) -> None:
    """Create, mount and delete a storage; on dev its Job is simulated and writes nothing."""
    await client.storages.create(STORAGE)
    await waiting.until_storage_ready(client, "weights", timeout_seconds=PATIENCE_SECONDS)
    await client.units.update(UNIT.name, UnitChange(storageMounts=MOUNTS))
    await waiting.until_unit_ready(client, UNIT.name, timeout_seconds=PATIENCE_SECONDS)
    storage = (await client.storages.get("weights")).data
    print("storage:", storage.capacity, "mounted by", *storage.mountedBy)
    try:
        await client.storages.delete("weights")
    except ConflictError as error:
        print("weights:", error.message)

    await use_its_files(client)
    await client.units.update(UNIT.name, UnitChange(storageMounts=()))
    await waiting.until_unit_ready(client, UNIT.name, timeout_seconds=PATIENCE_SECONDS)
    await client.storages.delete("weights")
    await waiting.until_storage_gone(client, "weights", timeout_seconds=PATIENCE_SECONDS)


async def use_its_files(client: Client) -> None:
    """Write and read a file of the storage.

    On dev this needs dufs on the PATH. Without a file server that may write, report the reason.
    """
    accessor = Accessor(enabled=True, writable=True)
    await client.storages.update("weights", StorageChange(accessor=accessor))
    files, greeting = client.storages.files("weights"), b"hello from a caller"
    try:
        await waiting.until_accessor_ready(client, "weights", timeout_seconds=PATIENCE_SECONDS)
        await files.write("greeting", once(greeting), size=len(greeting))
        async with files.read("greeting") as pieces:
            print("files:", b"".join([piece async for piece in pieces]).decode())
    except ClientError as error:
        print("files:", error)


async def once(data: bytes) -> AsyncIterator[bytes]:
    yield data


async def main(address: str) -> None:
    async with connect(Options(server=address)) as client:
        await walk(client)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8080"))
