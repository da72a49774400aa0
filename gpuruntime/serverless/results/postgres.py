"""Results in PostgreSQL; no other module talks to it.

Contract: no connection is needed at the start, and none is reused after a failure. Address and
secrets are read again for every connection, and no message of ours contains them. A released step
of the schema never changes; a change is a further step. Any number of processes, also of different
releases, may migrate at once.
"""

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, Final, Protocol
from urllib.parse import urlsplit

import asyncpg
import attrs

from gpuruntime.bus.errors import MissingError
from gpuruntime.bus.messages import Record, encode, read
from gpuruntime.bus.records import StoredRecord
from gpuruntime.serverless.results.store import StoreAwayError, StoreRefusedError

CLOSE_SECONDS: Final = 2.0
# Small enough to be quick, so that no statement waits long for locked rows.
SWEPT_AT_ONCE: Final = 500
# SQLSTATE classes of faults in these values or rows.
_ROW_FAULTS: Final = ("21", "22", "23")
_NO_TABLES: Final = (asyncpg.UndefinedTableError, asyncpg.InvalidSchemaNameError)
_FAILURES: Final = (
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    OSError,
    TimeoutError,
)

_NO_ADDRESS: Final = (
    "holds no address such as postgresql://user@host:5432/database; "
    "special characters of names and passwords are written as %XX"
)

# Indexing large tables takes long; reads are not blocked meanwhile.
STEP_SECONDS: Final = 600.0

STEPS: Final = (
    """
    CREATE TABLE results (
        function text NOT NULL,
        invocation text NOT NULL,
        revision bigint NOT NULL,
        state text NOT NULL,
        failure_class text,
        accepted_at timestamptz NOT NULL,
        written_at timestamptz NOT NULL,
        record bytea NOT NULL,
        PRIMARY KEY (function, invocation)
    )
    """,
    # Parts are written before the result they belong to, so there is no foreign key.
    """
    CREATE TABLE result_parts (
        function text NOT NULL,
        invocation text NOT NULL,
        revision bigint NOT NULL,
        part integer NOT NULL,
        written_at timestamptz NOT NULL,
        data bytea NOT NULL,
        PRIMARY KEY (function, invocation, revision, part)
    )
    """,
    "CREATE INDEX results_by_age ON results (written_at)",
    "CREATE INDEX result_parts_by_age ON result_parts (written_at)",
)

# A row that is an hour older belongs to an earlier stream, whatever its revision. The clocks of
# brokers differ by less, and no record of one stream arrives that late.
_KEEP: Final = """
    WITH kept AS (
        INSERT INTO results AS stored
            (function, invocation, revision, state, failure_class, accepted_at, written_at, record)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
        ON CONFLICT (function, invocation) DO UPDATE SET
            revision = excluded.revision,
            state = excluded.state,
            failure_class = excluded.failure_class,
            accepted_at = excluded.accepted_at,
            written_at = excluded.written_at,
            record = excluded.record
        WHERE stored.revision < excluded.revision
            OR stored.written_at < excluded.written_at - interval '1 hour'
        RETURNING stored.revision, stored.written_at
    ), cleared AS (
        DELETE FROM result_parts AS old USING kept
        WHERE function = $1 AND invocation = $2 AND (
            old.revision < kept.revision OR old.written_at < kept.written_at - interval '1 hour'
        )
    )
    SELECT count(*) FROM kept
"""
_KEEP_PART: Final = """
    INSERT INTO result_parts (function, invocation, revision, part, written_at, data)
    VALUES ($1, $2, $3, $4, $5, $6)
    ON CONFLICT (function, invocation, revision, part)
    DO UPDATE SET written_at = excluded.written_at, data = excluded.data
"""
_IS_KNOWN: Final = """
    SELECT count(*) FROM results WHERE function = $1 AND invocation = $2
        AND revision >= $3 AND written_at >= $4::timestamptz - interval '1 hour'
"""
_READ: Final = "SELECT revision, record FROM results WHERE function = $1 AND invocation = $2"
_READ_PART: Final = """
    SELECT data FROM result_parts
    WHERE function = $1 AND invocation = $2 AND revision = $3 AND part = $4
"""
# A row locked by a writer is not old any more, or is left to the next sweep.
_SWEEP: Final = """
    WITH gone AS (
        DELETE FROM {table} WHERE ctid = ANY (ARRAY(
            SELECT ctid FROM {table} WHERE written_at < $1
            ORDER BY written_at LIMIT $2 FOR UPDATE SKIP LOCKED
        )) RETURNING 1
    )
    SELECT count(*) FROM gone
"""


@attrs.frozen(kw_only=True, slots=True)
class PostgresOptions:
    """Set either `url` or `url_file`; a password is in a file, alone or in the address."""

    url: str
    url_file: str
    password_file: str
    schema: str
    name: str
    pool_size: int
    connect_seconds: float = 5.0
    statement_seconds: float = 10.0


class PostgresResults:
    """Results in one database; create it with `postgres_results`."""

    def __init__(self, pool: asyncpg.Pool, options: PostgresOptions) -> None:
        self._pool = pool
        self._options = options

    async def prepare(self) -> None:
        async with self._connection() as connection:
            await migrate(connection, self._options.schema)

    async def keep(
        self, stored: StoredRecord, parts: AsyncIterable[bytes], *, written_at: datetime
    ) -> bool:
        """Keep a result; no connection is held while a part is awaited."""
        record = stored.record
        key = (record.serverlessRequestID, record.invocationID)
        if record.bodyParts:
            if await self._value(_IS_KNOWN, *key, stored.revision, written_at):
                return False
            part = 0
            async for data in parts:
                await self._value(_KEEP_PART, *key, stored.revision, part, written_at, data)
                part += 1
        values = (record.state.value, record.failureClass and record.failureClass.value)
        kept = await self._value(
            _KEEP, *key, stored.revision, *values, record.acceptedAt, written_at, encode(record)
        )
        return bool(kept)

    async def read(self, function: str, invocation: str) -> StoredRecord | None:
        """Return the record, or None; as long as the tables do not exist, nothing was kept."""
        async with self._connection() as connection:
            try:
                row = await connection.fetchrow(_READ, function, invocation)
            except _NO_TABLES:
                return None
        if row is None:
            return None
        return StoredRecord(read(row["record"], Record), row["revision"])

    async def read_part(self, stored: StoredRecord, part: int) -> bytes:
        record = stored.record
        key = (record.serverlessRequestID, record.invocationID)
        data = await self._value(_READ_PART, *key, stored.revision, part)
        if data is None:
            raise MissingError(f"{'/'.join(key)}: part {part} of the body is not kept")
        return bytes(data)

    async def sweep(self, before: datetime) -> int:
        swept = await self._sweep("results", before)
        await self._sweep("result_parts", before)
        return swept

    async def _sweep(self, table: str, before: datetime) -> int:
        statement = _SWEEP.format(table=table)
        total = 0
        while count := await self._value(statement, before, SWEPT_AT_ONCE):
            total += count
        return total

    async def _value(self, query: str, *arguments: Any) -> Any:
        async with self._connection() as connection:
            return await connection.fetchval(query, *arguments)

    @asynccontextmanager
    async def _connection(self) -> AsyncIterator[Any]:
        try:
            async with self._pool.acquire(timeout=self._options.statement_seconds) as connection:
                yield connection
        except _FAILURES as error:
            if isinstance(error, asyncpg.PostgresError) and _is_row_fault(error):
                raise StoreRefusedError(f"PostgreSQL rejected it: {_reason(error)}") from error
            await self._pool.expire_connections()
            raise StoreAwayError(f"PostgreSQL: {_reason(error)}") from error


@asynccontextmanager
async def postgres_results(options: PostgresOptions) -> AsyncIterator[PostgresResults]:
    """Yield the store; it connects on the first use."""

    async def connect(*_: object, **given: Any) -> Any:
        try:
            return await asyncpg.connect(**_address(options), **given)
        except ValueError:
            # The message quotes the address, so it is left out of the chain of errors.
            raise StoreAwayError(f"{_where(options)}: {_NO_ADDRESS}") from None

    pool = asyncpg.create_pool(
        connect=connect,
        min_size=0,
        max_size=options.pool_size,
        timeout=options.connect_seconds,
        # Longer than the server's own timeout, so that the server reports first.
        command_timeout=options.statement_seconds + 1.0,
        server_settings={
            "application_name": options.name,
            "search_path": f'"{options.schema}"',
            "statement_timeout": _milliseconds(options.statement_seconds),
            "lock_timeout": _milliseconds(options.statement_seconds / 2),
            "idle_in_transaction_session_timeout": _milliseconds(options.statement_seconds),
        },
    )
    await pool
    try:
        yield PostgresResults(pool, options)
    finally:
        try:
            async with asyncio.timeout(CLOSE_SECONDS):
                await pool.close()
        except (TimeoutError, *_FAILURES):
            pool.terminate()


def _address(options: PostgresOptions) -> dict[str, str]:
    url = _secret(options.url_file) if options.url_file else options.url
    parts = urlsplit(url)
    # Otherwise a part of a password would be taken for a host and reported.
    is_whole = "@" in parts.netloc or "@" not in url
    if parts.scheme not in ("postgresql", "postgres") or not is_whole:
        raise StoreAwayError(f"{_where(options)}: {_NO_ADDRESS}")
    password = options.password_file
    return {"dsn": url, **({"password": _secret(password)} if password else {})}


def _secret(path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise StoreAwayError(f"cannot read {path}: {error.__class__.__name__}") from error


def _where(options: PostgresOptions) -> str:
    return options.url_file or "results.postgres.url"


def _is_row_fault(error: asyncpg.PostgresError) -> bool:
    return str(error.sqlstate or "").startswith(_ROW_FAULTS)


def _reason(error: BaseException) -> str:
    return str(error) or type(error).__name__


def _milliseconds(seconds: float) -> str:
    return str(int(seconds * 1000))


class Database(Protocol):
    """A connection whose search path is our schema."""

    def transaction(self) -> AbstractAsyncContextManager[Any]: ...

    async def execute(self, query: str, *arguments: Any, timeout: float | None = None) -> str: ...

    async def fetchval(self, query: str, *arguments: Any) -> Any: ...


async def migrate(database: Database, schema: str, *, steps: Sequence[str] = STEPS) -> None:
    """Take the missing steps; if there are none, write nothing and need no right to write."""
    async with database.transaction():
        await database.execute(
            "SELECT pg_advisory_xact_lock(hashtextextended('gpuruntime results ' || $1, 0))",
            schema,
        )
        await _begin(database, schema)
        taken = int(await database.fetchval("SELECT coalesce(max(step), 0) FROM schema_steps"))
        if taken > len(steps):
            raise StoreAwayError(
                f"schema {schema} is at step {taken}, and this release knows {len(steps)}: "
                "run the release that took it there, or a later one"
            )
        if taken < len(steps):
            await database.execute("SET LOCAL statement_timeout = 0")
        for number, step in enumerate(steps[taken:], start=taken + 1):
            await database.execute(step, timeout=STEP_SECONDS)
            await database.execute("INSERT INTO schema_steps (step) VALUES ($1)", number)


async def _begin(database: Database, schema: str) -> None:
    if not await database.fetchval("SELECT count(*) FROM pg_namespace WHERE nspname = $1", schema):
        await database.execute(f'CREATE SCHEMA "{schema}"')
    if await database.fetchval("SELECT to_regclass('schema_steps')") is None:
        await database.execute(
            "CREATE TABLE schema_steps"
            " (step integer PRIMARY KEY, taken_at timestamptz NOT NULL DEFAULT now())"
        )
