"""The configured store of results beside the stream, if there is one."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from gpuruntime.errors import ConfigurationError
from gpuruntime.serverless.results.store import ResultStore
from gpuruntime.settings.options import options_of
from gpuruntime.settings.results import StoreKind
from gpuruntime.settings.schema import Settings


@asynccontextmanager
async def result_store(settings: Settings, *, name: str) -> AsyncIterator[ResultStore | None]:
    """Yield the store, or None. The database lists the connections by `name`."""
    if settings.results.store is StoreKind.KV:
        yield None
        return
    given = settings.results.postgres
    try:
        from gpuruntime.serverless.results import postgres  # noqa: PLC0415 - needs an extra of its own
    except ImportError as error:
        raise ConfigurationError(
            "results.store: postgres needs asyncpg: install gpuruntime[postgres]"
        ) from error
    options = options_of(postgres.PostgresOptions, given, name=name)
    async with postgres.postgres_results(options) as store:
        yield store
