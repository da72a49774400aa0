"""The program `gpuruntime results` between a real broker and PostgreSQL, both killed at times."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import attrs
import pytest

from gpuruntime.bus.chunks import CHUNK_BYTES, Bodies
from gpuruntime.bus.messages import NULL, Record
from gpuruntime.bus.records import StoredRecord
from gpuruntime.models.kinds.invocations import State
from gpuruntime.serverless.results.postgres import PostgresOptions, postgres_results
from tests.eventually import equals, eventually, eventually_blocking
from tests.options import configured
from tests.proofs.real_cluster.product import Caller, Process
from tests.rooms.bus.broker import FUNCTION, Broker, Bus, bus
from tests.rooms.roles.programs import Programs, programs
from tests.rooms.roles.test_worker import readiness
from tests.rooms.serverless.results.database import PASSWORD, Database, database
from tests.rooms.serverless.results.test_follower import record, soon
from tests.rooms.worker.workers import ended

pytestmark = pytest.mark.serverless
NAMES = [f"i{number}" for number in range(300)]


@pytest.fixture
def server() -> Iterator[Database]:
    with database() as started:
        yield started


@pytest.fixture
def program(tmp_path: Path) -> Iterator[Programs]:
    with programs(tmp_path) as started:
        yield started


def start(program: Programs, made: Bus, server: Database) -> Process:
    return program.start(
        "results",
        nats={"url": made.url, "subjectPrefix": made.names.prefix},
        results=settings_of(program, server),
    )


def settings_of(program: Programs, server: Database) -> dict[str, object]:
    secret = program.folder / "password"
    secret.write_text(PASSWORD)
    postgres = {"url": server.bare_url, "passwordFile": str(secret)}
    return {"store": "postgres", "postgres": postgres}


def body_of(name: str) -> bytes:
    """Return a body of two parts."""
    return b'"' + name.encode() * CHUNK_BYTES + b'"'


async def end(made: Bus, name: str) -> None:
    """End invocations as a worker does: some with a long body, and some not at all."""
    if name.endswith("3"):
        await made.records.write(record(name, deadlineAt=soon(1.0)), expected=0)
        return
    done: Record = record(name, State.SUCCEEDED)
    if name.endswith("7"):
        body = body_of(name)
        count = await Bodies(made.jetstream, made.names).write(done, body, ttl_seconds=600)
        done = attrs.evolve(done, body=NULL, bodyParts=count)
    await made.records.write(done, expected=0)


async def in_stream(made: Bus, names: list[str]) -> dict[str, StoredRecord | None]:
    return {name: await made.records.read(FUNCTION, name) for name in names}


async def until_kept(made: Bus, server: Database, names: list[str]) -> dict[str, Any]:
    """Return the database's results, once they are complete and equal to the broker's."""
    async with postgres_results(configured(PostgresOptions, url=server.url)) as store:

        async def lacking() -> list[str]:
            kept.update({name: await store.read(FUNCTION, name) for name in names})
            # These reads let the loop notice that the broker was away, which blocking calls hid.
            await made.connection.connected()
            streamed = await in_stream(made, names)
            return [name for name in names if not kept[name] or kept[name] != streamed[name]]

        kept: dict[str, Any] = {}
        await eventually(lacking, equals([]), within_seconds=90, poll_seconds=0.5)
        for stored in kept.values():
            parts = range(stored.record.bodyParts)
            body = b"".join([await store.read_part(stored, part) for part in parts])
            assert body == (body_of(stored.record.invocationID) if parts else b"")
        return kept


def until_tells(process: Process, words: str) -> None:
    """Wait for its readiness; the process keeps running."""
    eventually_blocking(
        lambda: readiness(process),
        lambda told: words in told,
        within_seconds=20,
        poll_seconds=0.1,
        explain=process.tail,
    )


async def test_repeatedly_killed_replicas_lose_nothing(
    program: Programs, own: Broker, server: Database
) -> None:
    rng = Random(7)
    async with bus(own.url, "kills") as made:
        replicas = [start(program, made, server) for _ in range(2)]
        for name in NAMES:
            await end(made, name)
            await asyncio.sleep(0.02)
            if rng.random() < 0.02:
                place = rng.randrange(2)
                replicas[place].kill()
                replicas[place] = start(program, made, server)
        replicas[0].kill()
        replicas[0] = start(program, made, server)
        kept = await until_kept(made, server, NAMES)
        assert [replica.stop() for replica in replicas] == [0, 0]
    late = {name for name, stored in kept.items() if stored.record.state is State.EXPIRED}
    assert late == {name for name in NAMES if name.endswith("3")}


async def test_invocations_expire_while_the_database_is_unreachable(
    program: Programs, own: Broker, server: Database
) -> None:
    async with bus(own.url, "away") as made:
        process = start(program, made, server)
        process.wait_until_ready()
        await end(made, "first7")
        await until_kept(made, server, ["first7"])
        server.kill()
        names = [f"a{number}" for number in range(20)]
        for name in names:
            await end(made, name)
        until_tells(process, "PostgreSQL: ")
        assert process.metric("gpuruntime_results_database_errors_total") > 0
        for name in names:
            await ended(made, name)
        server.start()
        server.wait()
        until_tells(process, "ok")
        await until_kept(made, server, ["first7", *names])
        assert process.stop() == 0
        told = process.log.read_text()
    assert PASSWORD not in told
    assert "result store unavailable" in told


async def test_the_api_reads_records_that_left_the_stream_from_the_database(
    program: Programs, own: Broker, server: Database
) -> None:
    async with bus(own.url, "reads") as made:
        results = start(program, made, server)
        await end(made, "i7")
        [kept] = (await until_kept(made, server, ["i7"])).values()
        await made.records.delete(kept)
        api = program.start(
            "api",
            kubernetes={"kubeconfig": str(program.cluster())},
            nats={"url": made.url, "subjectPrefix": made.names.prefix},
            results=settings_of(program, server),
        )
        caller = Caller(api.address)
        where = "/serverless/invocations/i7?serverlessRequestID=echo"
        data = caller.until(where, lambda data: data["state"] == "succeeded")
        assert (data["invocationID"], data["attempt"]) == ("i7", kept.record.attempt)
        assert results.stop() == api.stop() == 0


async def test_a_suspended_database_delays_neither_expiries_nor_the_shutdown(
    program: Programs, own: Broker, server: Database
) -> None:
    async with bus(own.url, "still") as made:
        process, other = start(program, made, server), start(program, made, server)
        process.wait_until_ready()
        other.wait_until_ready()
        server.pause()
        names = [f"a{number}" for number in range(100)]
        for name in names:
            await end(made, name)
        for name in names:
            await ended(made, name)
        assert process.stop() == 0
        until_tells(other, "PostgreSQL: ")
        server.resume()
        await until_kept(made, server, names)
        assert other.stop() == 0


async def test_a_role_that_starts_without_broker_and_database_waits_for_both(
    program: Programs, own: Broker, server: Database
) -> None:
    async with bus(own.url, "late") as made:
        await end(made, "one")
        own.kill()
        server.kill()
        process = start(program, made, server)
        until_tells(process, "nats://")
        own.start()
        until_tells(process, "PostgreSQL: ")
        server.start()
        until_tells(process, "ok")
        await until_kept(made, server, ["one"])
        assert not process.has_ended
