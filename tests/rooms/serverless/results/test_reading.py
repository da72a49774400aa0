"""Reads of invocations whose records have left the broker, from a real PostgreSQL."""

from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta

import attrs
import pytest
import pytest_asyncio

from gpuruntime.bus.chunks import CHUNK_BYTES
from gpuruntime.bus.messages import NULL
from gpuruntime.bus.records import StoredRecord
from gpuruntime.models.kinds.invocations import State
from gpuruntime.serverless.errors import InvocationNotFoundError, QueueAwayError
from gpuruntime.serverless.results.postgres import (
    PostgresOptions,
    PostgresResults,
    postgres_results,
)
from tests.options import configured
from tests.rooms.bus.broker import FUNCTION, Broker
from tests.rooms.serverless.calling.ingress import Site, site
from tests.rooms.serverless.conftest import PREFIXES
from tests.rooms.serverless.results.database import Database, database
from tests.rooms.serverless.results.results import ended, parts

pytestmark = pytest.mark.serverless


@pytest.fixture
def server() -> Iterator[Database]:
    with database() as started:
        yield started


@pytest_asyncio.fixture
async def store(server: Database) -> AsyncIterator[PostgresResults]:
    async with postgres_results(configured(PostgresOptions, url=server.url)) as made:
        await made.prepare()
        yield made


async def keep(store: PostgresResults, at: Site, stored: StoredRecord, *body: bytes) -> None:
    """Keep the record in the store alone, as a day after its end."""
    now = datetime.now(UTC)
    assert await store.keep(stored, parts(*body), written_at=now - timedelta(days=1))
    assert not await at.state(stored.record.invocationID)


async def test_a_record_that_left_the_stream_is_read_from_the_database(
    shared: Broker, store: PostgresResults
) -> None:
    async with site(shared.url, f"read{next(PREFIXES)}", results=store) as at:
        short, long = ended("short"), ended("long", body=NULL, bodyParts=2)
        await keep(store, at, short)
        await keep(store, at, long, b'"' + b"a" * CHUNK_BYTES, b'b"')
        read = await at.ingress.invocations.read(FUNCTION, "short")
        assert (read.record, read.body) == (short.record, short.record.body)
        whole = await at.ingress.invocations.read(FUNCTION, "long")
        assert bytes(whole.body) == b'"' + b"a" * CHUNK_BYTES + b'b"'
        with pytest.raises(InvocationNotFoundError):
            await at.ingress.invocations.read(FUNCTION, "never")


async def test_the_stream_has_precedence_over_the_database(
    shared: Broker, store: PostgresResults
) -> None:
    """A redriven invocation has its first end in the database by then."""
    async with site(shared.url, f"read{next(PREFIXES)}", results=store) as at:
        dead = ended("one", revision=1, state=State.DEAD_LETTERED)
        await keep(store, at, dead)
        again = attrs.evolve(dead.record, state=State.QUEUED, series=2)
        await at.bus.records.write(again, expected=0)
        read = await at.ingress.invocations.read(FUNCTION, "one")
        assert (read.record.state, read.record.series) == (State.QUEUED, 2)


async def test_a_long_body_that_left_the_broker_is_read_from_the_database(
    shared: Broker, store: PostgresResults
) -> None:
    async with site(shared.url, f"read{next(PREFIXES)}", results=store) as at:
        spoken = ended("one", body=NULL, bodyParts=2).record
        stored = await at.bus.records.write(spoken, expected=0)
        body = b'"' + b"a" * CHUNK_BYTES + b'"'
        chunks = (body[:CHUNK_BYTES], body[CHUNK_BYTES:])
        await store.keep(stored, parts(*chunks), written_at=datetime.now(UTC))
        assert bytes((await at.ingress.invocations.read(FUNCTION, "one")).body) == body


async def test_an_unreachable_database_does_not_prove_that_an_invocation_is_missing(
    shared: Broker, store: PostgresResults, server: Database
) -> None:
    async with site(shared.url, f"read{next(PREFIXES)}", results=store) as at:
        await at.bus.records.write(ended("recent").record, expected=0)
        server.kill()
        assert (await at.ingress.invocations.read(FUNCTION, "recent")).record.statusCode == 200
        with pytest.raises(QueueAwayError, match="PostgreSQL"):
            await at.ingress.invocations.read(FUNCTION, "old")
