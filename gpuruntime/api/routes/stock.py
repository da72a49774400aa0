"""The operator's routes: seed stock, follow jobs, keep pools."""

from collections.abc import Mapping
from functools import partial
from typing import Any, Final

import attrs

from gpuruntime.api.auth.access import Verb, pool_access
from gpuruntime.api.http.headers import IF_MATCH, MEANING_OF_REPLAY, REPLAYED, if_match
from gpuruntime.api.http.routing import (
    READ,
    WRITE,
    Answer,
    Body,
    Call,
    Form,
    NoQuery,
    Reply,
    Route,
)
from gpuruntime.api.openapi import examples
from gpuruntime.api.views.pages import (
    PageQuery,
    cursor_after,
    cursor_after_key,
    key_of,
    position_of,
)
from gpuruntime.api.views.pools import pool_view
from gpuruntime.models.kinds.pools import StockPool
from gpuruntime.models.requests.pools import CreatePool, SeedStock, UpdatePool
from gpuruntime.models.views.operators import Job
from gpuruntime.models.views.pools import PoolView
from gpuruntime.operations.jobs import Jobs, job_of
from gpuruntime.operations.operations import Operations
from gpuruntime.operations.options import Namespaces
from gpuruntime.operations.pools import Pools
from gpuruntime.operations.requests import parse_create_pool, parse_seed_stock, parse_update_pool
from gpuruntime.operations.updates import etag_of

OPERATOR: Final = "/api/v1/operator"
POOLS: Final = f"{OPERATOR}/stockpools"
POOL: Final = f"{POOLS}/{{name}}"
JOBS: Final = f"{OPERATOR}/jobs"
JOB: Final = f"{JOBS}/{{operationID}}"
_CONFLICTS = ("operation_conflict", "operation_finished", "name_taken", "spec_conflict")
_ETAG = {"ETag": "Changes with the pool's spec; for If-Match."}
_NO_HEADERS: Final[Mapping[str, str]] = {}


def stock_routes(inventory: Operations, namespaces: Namespaces) -> tuple[Route, ...]:
    return (
        *_job_routes(_JobHandlers(inventory.pools, inventory.jobs)),
        *_pool_routes(_PoolHandlers(inventory.pools), namespaces),
    )


def _job_routes(handlers: "_JobHandlers") -> tuple[Route, ...]:
    return (
        Route(
            method="POST",
            path=f"{OPERATOR}/stock-units",
            name="seedStockUnits",
            access=pool_access(Verb.CREATE),
            handler=handlers.seed,
            summary="Create stock units once",
            body=Body(model=SeedStock, parse=parse_seed_stock, example=examples.SEED_STOCK),
            answers=_accepted("The job as it is now.", Job),
            errors=(*WRITE, *_CONFLICTS),
            tag="stock",
        ),
        Route(
            method="GET",
            path=JOBS,
            name="listJobs",
            access=pool_access(Verb.LIST),
            is_untimed=True,
            handler=handlers.list,
            summary="List jobs by operationID",
            query=PageQuery,
            answers=(
                Answer(status=200, description="A page of jobs.", form=Form.PAGE, model=Job),
            ),
            errors=READ,
            tag="stock",
        ),
        Route(
            method="GET",
            path=JOB,
            name="getJob",
            access=pool_access(Verb.GET),
            handler=handlers.get,
            summary="Follow a job",
            answers=(Answer(status=200, description="The job.", model=Job),),
            errors=(*READ, "job_not_found"),
            tag="stock",
        ),
    )


def _pool_routes(handlers: "_PoolHandlers", namespaces: Namespaces) -> tuple[Route, ...]:
    return (
        Route(
            method="POST",
            path=POOLS,
            name="createPool",
            access=pool_access(Verb.CREATE),
            handler=handlers.create,
            summary="Create a pool of stock",
            body=Body(
                model=CreatePool,
                parse=partial(parse_create_pool, namespaces=namespaces),
                example=examples.CREATE_POOL,
            ),
            answers=_accepted("The pool as it is now.", PoolView, _ETAG),
            errors=(*WRITE, *_CONFLICTS),
            tag="stock",
        ),
        Route(
            method="GET",
            path=POOLS,
            name="listPools",
            access=pool_access(Verb.LIST),
            is_untimed=True,
            handler=handlers.list,
            summary="List pools by name",
            query=PageQuery,
            answers=(
                Answer(status=200, description="A page of pools.", form=Form.PAGE, model=PoolView),
            ),
            errors=READ,
            tag="stock",
        ),
        Route(
            method="GET",
            path=POOL,
            name="getPool",
            access=pool_access(Verb.GET),
            handler=handlers.get,
            summary="Read a pool",
            answers=(Answer(status=200, description="The pool.", model=PoolView, headers=_ETAG),),
            errors=(*READ, "stockpool_not_found"),
            tag="stock",
        ),
        Route(
            method="PUT",
            path=POOL,
            name="updatePool",
            access=pool_access(Verb.UPDATE),
            handler=handlers.update,
            summary="Change a pool",
            body=Body(model=UpdatePool, parse=parse_update_pool, example=examples.UPDATE_POOL),
            headers=IF_MATCH,
            answers=(
                Answer(status=200, description="The changed pool.", model=PoolView, headers=_ETAG),
            ),
            errors=(*WRITE, "stockpool_not_found", "precondition_failed"),
            tag="stock",
        ),
        Route(
            method="DELETE",
            path=POOL,
            name="deletePool",
            access=pool_access(Verb.DELETE),
            handler=handlers.delete,
            summary="Delete a pool and its unclaimed stock",
            headers=IF_MATCH,
            answers=(
                Answer(status=204, description="It is deleted, or about to be.", form=Form.EMPTY),
            ),
            errors=(*READ, "stockpool_not_found", "precondition_failed"),
            tag="stock",
        ),
    )


def _accepted(
    description: str, model: Any, headers: Mapping[str, str] = _NO_HEADERS
) -> tuple[Answer, ...]:
    return (
        Answer(status=202, description=description, model=model, headers=headers),
        Answer(
            status=200,
            description="The operation was accepted before: its present state.",
            model=model,
            headers={**headers, **MEANING_OF_REPLAY},
        ),
    )


class _JobHandlers:
    def __init__(self, pools: Pools, jobs: Jobs) -> None:
        self._pools = pools
        self._jobs = jobs

    async def seed(self, call: Call[NoQuery, SeedStock]) -> Reply:
        creation = await self._pools.create(call.body)
        return _accepted_reply(job_of(creation.pool), is_replay=creation.is_replay)

    async def list(self, call: Call[PageQuery, None]) -> Reply:
        cursor = call.query.cursor
        after = position_of(cursor, parts=1)[0] if cursor else ""
        page = self._jobs.page(limit=call.query.limit, after=after)
        return Reply(data=page.jobs, next=cursor_after(page.next) if page.next else "")

    async def get(self, call: Call[NoQuery, None]) -> Reply:
        return Reply(data=await self._jobs.get(call.path("operationID")))


class _PoolHandlers:
    def __init__(self, pools: Pools) -> None:
        self._pools = pools

    async def create(self, call: Call[NoQuery, CreatePool]) -> Reply:
        creation = await self._pools.create(call.body)
        reply = _accepted_reply(pool_view(creation.pool), is_replay=creation.is_replay)
        return attrs.evolve(reply, headers={**_etag(creation.pool), **reply.headers})

    async def list(self, call: Call[PageQuery, None]) -> Reply:
        page = self._pools.page(limit=call.query.limit, after=key_of(call.query.cursor))
        return Reply(
            data=[pool_view(pool) for pool in page.pools], next=cursor_after_key(page.next)
        )

    async def get(self, call: Call[NoQuery, None]) -> Reply:
        return _shown(await self._pools.get(call.path("name")))

    async def update(self, call: Call[NoQuery, UpdatePool]) -> Reply:
        matching = if_match(call.request)
        return _shown(await self._pools.update(call.path("name"), call.body, if_match=matching))

    async def delete(self, call: Call[NoQuery, None]) -> Reply:
        await self._pools.delete(call.path("name"), if_match=if_match(call.request))
        return Reply(status=204)


def _accepted_reply(data: object, *, is_replay: bool) -> Reply:
    return Reply(data=data, headers=REPLAYED) if is_replay else Reply(status=202, data=data)


def _shown(pool: StockPool) -> Reply:
    return Reply(data=pool_view(pool), headers=_etag(pool))


def _etag(pool: StockPool) -> Mapping[str, str]:
    return {"ETag": etag_of(pool)}
