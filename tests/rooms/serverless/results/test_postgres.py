"""The result store on a real PostgreSQL."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from itertools import count
from pathlib import Path

import pytest
import pytest_asyncio

from gpuruntime.bus.errors import MissingError
from gpuruntime.models.kinds.invocations import FailureClass, State
from gpuruntime.serverless.results.postgres import (
    STEPS,
    PostgresOptions,
    PostgresResults,
    migrate,
    postgres_results,
)
from gpuruntime.serverless.results.store import StoreAwayError, StoreRefusedError
from tests.options import configured
from tests.rooms.bus.broker import FUNCTION
from tests.rooms.serverless.results.database import (
    PASSWORD,
    Database,
    asking,
    database,
    database_url,
)
from tests.rooms.serverless.results.results import NOW, ended, parts

pytestmark = pytest.mark.serverless
SCHEMAS = count(1)
DAY = timedelta(days=1)
# The columns of all tables, from the catalogue.
SHAPE = """
    SELECT table_name, column_name, data_type, is_nullable FROM information_schema.columns
    WHERE table_schema = $1 ORDER BY table_name, ordinal_position
"""
INDEXES = "SELECT indexname FROM pg_indexes WHERE schemaname = $1 ORDER BY indexname"


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with database_url() as url:
        yield url


@pytest.fixture
def schema() -> str:
    return f"results_{next(SCHEMAS)}"


@pytest_asyncio.fixture
async def store(server: str, schema: str) -> AsyncIterator[PostgresResults]:
    async with postgres_results(configured(PostgresOptions, url=server, schema=schema)) as made:
        await made.prepare()
        yield made


async def test_a_record_is_read_as_kept(store: PostgresResults) -> None:
    one = ended("one", failureClass=FailureClass.FRAMEWORK_ERROR, error="no \x00 luck")
    assert await store.keep(one, parts(), written_at=NOW)
    assert await store.read(FUNCTION, "one") == one
    assert await store.read(FUNCTION, "two") is None
    assert await store.read("other", "one") is None


async def test_the_newer_of_two_revisions_stays_in_either_order(
    store: PostgresResults,
) -> None:
    old, new = ended(revision=7), ended(revision=8, state=State.CANCELLED)
    assert await store.keep(old, parts(), written_at=NOW)
    assert await store.keep(new, parts(), written_at=NOW)
    assert not await store.keep(old, parts(), written_at=NOW)
    assert not await store.keep(new, parts(), written_at=NOW)
    assert await store.read(FUNCTION, "one") == new


async def test_records_of_a_recreated_stream_replace_much_older_ones(
    store: PostgresResults,
) -> None:
    """Their revisions are lower, but they were written much later."""
    before = ended(revision=70, bodyParts=2)
    after = ended(revision=7, bodyParts=1, state=State.FAILED)
    later = NOW + timedelta(hours=2)
    assert await store.keep(before, parts(b"old", b"old"), written_at=NOW)
    assert await store.keep(after, parts(b"new"), written_at=later)
    assert await store.read(FUNCTION, "one") == after
    assert await store.read_part(after, 0) == b"new"
    with pytest.raises(MissingError):
        await store.read_part(before, 0)
    assert not await store.keep(ended(revision=6), parts(), written_at=later)


async def test_a_long_body_is_kept_in_parts_beside_its_record(store: PostgresResults) -> None:
    long = ended(bodyParts=2)
    assert await store.keep(long, parts(b"first", b"second"), written_at=NOW)
    assert [await store.read_part(long, part) for part in range(2)] == [b"first", b"second"]
    with pytest.raises(MissingError, match="echo/one: part 2 of the body is not kept"):
        await store.read_part(long, 2)


async def test_a_keep_that_ended_in_the_middle_of_a_body_is_completed_later(
    store: PostgresResults,
) -> None:
    async def broken() -> AsyncIterator[bytes]:
        yield b"first"
        raise MissingError("the broker is away")

    long = ended(bodyParts=2)
    with pytest.raises(MissingError):
        await store.keep(long, broken(), written_at=NOW)
    assert await store.read(FUNCTION, "one") is None
    assert await store.keep(long, parts(b"first", b"second"), written_at=NOW)
    assert await store.read_part(long, 1) == b"second"


async def test_parts_are_deleted_with_their_record(
    store: PostgresResults, server: str, schema: str
) -> None:
    await store.keep(ended(revision=7, bodyParts=1), parts(b"old"), written_at=NOW)
    await store.keep(ended(revision=8, bodyParts=1), parts(b"new"), written_at=NOW)
    async with asking(server, schema) as database:
        assert await database.fetchval("SELECT array_agg(data) FROM result_parts") == [b"new"]
    assert not await store.keep(ended(revision=7, bodyParts=1), parts(b"old"), written_at=NOW)
    async with asking(server, schema) as database:
        assert await database.fetchval("SELECT count(*) FROM result_parts") == 1


async def test_the_body_of_a_known_record_is_not_read(store: PostgresResults) -> None:
    asked: list[bytes] = []

    async def noted() -> AsyncIterator[bytes]:
        async for part in parts(b"body"):
            asked.append(part)
            yield part

    assert await store.keep(ended(bodyParts=1), noted(), written_at=NOW)
    assert not await store.keep(ended(bodyParts=1), noted(), written_at=NOW)
    assert asked == [b"body"]


async def test_a_sweep_deletes_older_records_with_their_bodies_and_nothing_else(
    store: PostgresResults, server: str, schema: str
) -> None:
    async with asking(server, schema) as database:
        await database.execute(
            "INSERT INTO results SELECT 'echo', 'o' || n, 1, 'succeeded', NULL, $1, $1, ''"
            " FROM generate_series(1, 1201) AS n",
            NOW - DAY,
        )
    await store.keep(ended("long", bodyParts=1), parts(b"body"), written_at=NOW - DAY)
    await store.keep(ended("young", bodyParts=1), parts(b"body"), written_at=NOW)
    assert await store.sweep(NOW) == 1202
    assert await store.sweep(NOW) == 0
    async with asking(server, schema) as database:
        assert await database.fetchval("SELECT count(*) FROM results") == 1
        assert await database.fetchval("SELECT count(*) FROM result_parts") == 1
    assert await store.read_part(ended("young"), 0) == b"body"


@pytest.mark.usefixtures("store")
@pytest.mark.parametrize("taken", range(len(STEPS) + 1))
async def test_a_database_at_any_older_step_reaches_the_newest(
    server: str, schema: str, taken: int
) -> None:
    older = f"{schema}_at_{taken}"
    async with asking(server, older) as database:
        await migrate(database, older, steps=STEPS[:taken])
        if taken:
            await database.execute(
                "INSERT INTO results VALUES ('echo', 'old', 1, 'failed', NULL, $1, $1, '{}')", NOW
            )
        async with postgres_results(configured(PostgresOptions, url=server, schema=older)) as made:
            await made.prepare()
            assert await made.keep(ended(bodyParts=1), parts(b"body"), written_at=NOW)
            assert await made.sweep(NOW) == 0
        assert await database.fetchval("SELECT count(*) FROM results") == 1 + bool(taken)
        assert await database.fetch(SHAPE, older) == await database.fetch(SHAPE, schema)
        assert await database.fetch(INDEXES, older) == await database.fetch(INDEXES, schema)


async def test_many_migrations_at_once_create_the_tables_once(server: str, schema: str) -> None:
    options = configured(PostgresOptions, url=server, schema=schema)
    async with (
        postgres_results(options) as one,
        postgres_results(options) as two,
        asyncio.TaskGroup() as tasks,
    ):
        for made in (one, two, one, two):
            tasks.create_task(made.prepare())
    async with asking(server, schema) as database:
        steps = await database.fetchval("SELECT array_agg(step ORDER BY step) FROM schema_steps")
    assert steps == list(range(1, len(STEPS) + 1))


async def test_dropped_tables_are_created_again_by_the_next_preparation(
    store: PostgresResults, server: str, schema: str
) -> None:
    assert await store.keep(ended(), parts(), written_at=NOW)
    async with asking(server, schema) as database:
        await database.execute(f"DROP SCHEMA {schema} CASCADE")
    with pytest.raises(StoreAwayError, match='relation "results" does not exist'):
        await store.keep(ended(), parts(), written_at=NOW)
    await store.prepare()
    assert await store.keep(ended(), parts(), written_at=NOW)


async def test_a_database_of_a_later_release_is_left_alone(
    store: PostgresResults, server: str, schema: str
) -> None:
    async with asking(server, schema) as database:
        await database.execute("INSERT INTO schema_steps (step) VALUES (77)")
    with pytest.raises(StoreAwayError, match="at step 77, and this release knows 4: run"):
        await store.prepare()


@pytest.mark.usefixtures("store")
async def test_a_user_who_may_only_write_rows_suffices_once_the_tables_exist(
    server: str, schema: str, tmp_path: Path
) -> None:
    async with asking(server, schema) as database:
        role = f"{schema}_writer"
        await database.execute(f"CREATE ROLE {role} LOGIN PASSWORD 'word'")
        await database.execute(f"GRANT USAGE ON SCHEMA {schema} TO {role}")
        await database.execute(
            f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO {role}"
        )
    (tmp_path / "word").write_text("word\n")
    place = server.partition("@")[2]
    options = configured(
        PostgresOptions,
        url=f"postgresql://{role}@{place}",
        password_file=str(tmp_path / "word"),
        schema=schema,
    )
    async with postgres_results(options) as made:
        await made.prepare()
        assert await made.keep(ended(), parts(), written_at=NOW)


async def test_a_read_before_the_first_migration_finds_nothing(server: str) -> None:
    async with postgres_results(configured(PostgresOptions, url=server, schema="nowhere")) as made:
        assert await made.read(FUNCTION, "one") is None


async def test_a_rejected_row_is_not_a_failure_of_the_database(
    store: PostgresResults,
) -> None:
    with pytest.raises(StoreRefusedError, match="PostgreSQL rejected it"):
        await store.keep(ended("\x00"), parts(), written_at=NOW)
    assert await store.keep(ended(), parts(), written_at=NOW)


@pytest.mark.usefixtures("store")
async def test_no_statement_exceeds_its_timeout(server: str, schema: str) -> None:
    options = configured(PostgresOptions, url=server, schema=schema, statement_seconds=0.5)
    async with asking(server, schema) as database, postgres_results(options) as hasty:
        async with database.transaction():
            await database.execute("LOCK TABLE results")
            with pytest.raises(StoreAwayError, match="PostgreSQL: canceling statement"):
                await hasty.keep(ended(), parts(), written_at=NOW)
        assert await hasty.keep(ended(), parts(), written_at=NOW)


async def test_a_server_that_comes_back_is_used_again(tmp_path: Path) -> None:
    with database() as own:
        secret = tmp_path / "url"
        async with postgres_results(configured(PostgresOptions, url_file=str(secret))) as made:
            with pytest.raises(StoreAwayError, match=f"cannot read {secret}: FileNotFoundError"):
                await made.prepare()
            secret.write_text(f"{own.url}\n")
            await made.prepare()
            assert await made.keep(ended(), parts(), written_at=NOW)
            own.kill()
            for _ in range(3):
                with pytest.raises(StoreAwayError):
                    await made.read(FUNCTION, "one")
            own.start()
            own.wait()
            assert await made.read(FUNCTION, "one") == ended()


@pytest.mark.parametrize(
    "address",
    [
        f"postgresql://gpuruntime:{PASSWORD}@127.0.0.1:1/postgres",
        "postgresql://gpuruntime:12/3w#rd@127.0.0.1:1/postgres",
        f"mysql://gpuruntime:{PASSWORD}@127.0.0.1/postgres",
        "postgresql://gpuruntime:p%25ss@127.0.0.1:nowhere/postgres",
        "postgresql://gpuruntime:p%25ss@127.0.0.1:1/postgres",
        "p%ss",
    ],
)
async def test_no_message_contains_a_part_of_the_password(address: str, tmp_path: Path) -> None:
    secret = tmp_path / "url"
    secret.write_text(address)
    async with postgres_results(configured(PostgresOptions, url_file=str(secret))) as made:
        with pytest.raises(StoreAwayError) as caught:
            await made.prepare()
    told = []
    error: BaseException | None = caught.value
    while error is not None:
        told.append(str(error))
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    assert not any(word in text for text in told for word in ("p%", "w#rd", "ss/", "'12'")), told


async def test_a_wrong_password_is_reported_without_it(server: str, tmp_path: Path) -> None:
    secret = tmp_path / "password"
    secret.write_text("wrong-word")
    options = configured(PostgresOptions, url=server, password_file=str(secret))
    async with postgres_results(options) as made:
        with pytest.raises(StoreAwayError, match="password authentication failed") as caught:
            await made.prepare()
    assert "wrong-word" not in str(caught.value)


def test_the_database_of_a_test_ends_with_the_test() -> None:
    with database() as own:
        assert isinstance(own, Database)
        folder = own.folder
    assert not folder.exists()
