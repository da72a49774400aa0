"""The tables of results, and how a database comes to have them: numbered steps, each taken once.

Contract: a step that was released never changes; what is to be otherwise is a further step. Any
number of processes may do this at once, of this release and of others.
"""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Final, Protocol

from gpuruntime.serverless.results.store import StoreAwayError

# Indexes of large tables take their time; nobody else is kept waiting for reads meanwhile.
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
    # Parts come before the result that they belong to, so that nothing refers to it.
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


class Database(Protocol):
    """A connection whose search path is the schema of ours."""

    def transaction(self) -> AbstractAsyncContextManager[Any]: ...

    async def execute(self, query: str, *arguments: Any, timeout: float | None = None) -> str: ...

    async def fetchval(self, query: str, *arguments: Any) -> Any: ...


async def migrate(database: Database, schema: str, *, steps: Sequence[str] = STEPS) -> None:
    """Where it is done already this writes nothing, and needs no right to."""
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
