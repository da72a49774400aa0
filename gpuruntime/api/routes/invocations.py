"""The routes of invocations: send one, wait for it, list them, read one, cancel it."""

from collections.abc import Callable
from typing import Annotated, Any, Final

import attrs

from gpuruntime.api.auth import access
from gpuruntime.api.auth.access import Access, Verb
from gpuruntime.api.cluster_link import ClusterLink, demand_running
from gpuruntime.api.http.headers import MEANING_OF_REPLAY, NEW, REPLAYED
from gpuruntime.api.http.routing import (
    LOCAL,
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
from gpuruntime.api.views.pages import DEFAULT_LIMIT, Cursor, Limit, cursor_after, number_of
from gpuruntime.api.views.serverless import accepted_view, invocation_summary, invocation_view
from gpuruntime.models.definitions.schemas import Schema
from gpuruntime.models.kinds.invocations import Mode, State
from gpuruntime.models.requests.invocations import FunctionID, Invoke
from gpuruntime.models.views.serverless import AcceptedView, InvocationSummary, InvocationView
from gpuruntime.serverless.calling.functions import missing_function
from gpuruntime.serverless.calling.invocations import missing_invocation
from gpuruntime.serverless.calling.requests import parse_invoke
from gpuruntime.serverless.calling.service import FunctionService

SERVERLESS: Final = "/api/v1/serverless"
INVOCATIONS: Final = f"{SERVERLESS}/invocations"
INVOCATION: Final = f"{INVOCATIONS}/{{invocationID}}"
TAG: Final = "serverless"
# Error codes of a route that needs only the queue.
QUEUED: Final = (*LOCAL, "service_unavailable")


@attrs.frozen(kw_only=True, slots=True)
class InvocationQuery:
    """The function of an invocation, as ids are unique only within a function."""

    serverlessRequestID: FunctionID


@attrs.frozen(kw_only=True, slots=True)
class InvocationsQuery:
    """The invocations of one function, in one state or in any."""

    serverlessRequestID: FunctionID
    state: Annotated[str, Schema(enum=tuple(State))] = ""
    limit: Limit = DEFAULT_LIMIT
    cursor: Cursor = ""


def invocation_routes(
    service: FunctionService, connection: Callable[[], ClusterLink]
) -> tuple[Route, ...]:
    handlers = _InvocationHandlers(service, connection)
    return (
        Route(
            method="POST",
            path=INVOCATIONS,
            name="invoke",
            access=Access(verb=Verb.CREATE, resource=access.INVOCATIONS),
            is_untimed=True,
            lasts=True,
            handler=handlers.invoke,
            summary="Call a function, now or whenever a worker is free",
            body=Body(model=Invoke, parse=parse_invoke, example=examples.INVOKE),
            answers=(
                Answer(
                    status=202,
                    description="The invocation is accepted, and will run. A synchronous call "
                    "that has waited for waitSeconds gets the invocation as it is then.",
                    model=InvocationView | AcceptedView,
                    headers=MEANING_OF_REPLAY,
                ),
                Answer(
                    status=200,
                    description="The end of a synchronous call, or an earlier acceptance.",
                    model=InvocationView | AcceptedView,
                    headers=MEANING_OF_REPLAY,
                ),
            ),
            errors=(*WRITE, "function_not_found", "operation_conflict", "queue_full"),
            needs_cluster=False,
            tag=TAG,
        ),
        Route(
            method="GET",
            path=INVOCATIONS,
            name="listInvocations",
            access=Access(verb=Verb.LIST, resource=access.INVOCATIONS),
            handler=handlers.list,
            summary="List the invocations of a function, the oldest change first",
            query=InvocationsQuery,
            answers=(
                Answer(
                    status=200,
                    description="A page of invocations, without the functions' answers.",
                    form=Form.PAGE,
                    model=InvocationSummary,
                ),
            ),
            errors=QUEUED,
            needs_cluster=False,
            tag=TAG,
        ),
        Route(
            method="GET",
            path=INVOCATION,
            name="getInvocation",
            access=Access(verb=Verb.GET, resource=access.INVOCATIONS),
            handler=handlers.get,
            summary="Read an invocation and its result",
            query=InvocationQuery,
            answers=(Answer(status=200, description="The invocation.", model=InvocationView),),
            errors=(*QUEUED, "invocation_not_found"),
            needs_cluster=False,
            tag=TAG,
        ),
        Route(
            method="DELETE",
            path=INVOCATION,
            name="cancelInvocation",
            access=Access(verb=Verb.DELETE, resource=access.INVOCATIONS),
            handler=handlers.cancel,
            summary="Cancel an invocation",
            query=InvocationQuery,
            answers=(
                Answer(
                    status=204,
                    description="It never starts, or its worker cancels it.",
                    form=Form.EMPTY,
                ),
            ),
            errors=(*QUEUED, "invocation_not_found", "already_finished"),
            needs_cluster=False,
            tag=TAG,
        ),
    )


class _InvocationHandlers:
    def __init__(self, service: FunctionService, connection: Callable[[], ClusterLink]) -> None:
        self._service = service
        self._connection = connection

    async def invoke(self, call: Call[NoQuery, Invoke]) -> Reply:
        demand_running(self._connection())
        function = call.body.serverlessRequestID
        if not await self._is_own(call, function):
            raise missing_function(function)
        if call.body.mode is Mode.SYNC:
            return await self._call(call)
        acceptance = self._service.acceptance
        accepted = await acceptance.accept(acceptance.named(call.body))
        view = accepted_view(accepted, self._service.queue.names)
        if accepted.is_duplicate:
            return Reply(data=view, headers=REPLAYED)
        return Reply(status=202, data=view, headers=NEW)

    async def list(self, call: Call[InvocationsQuery, None]) -> Reply:
        query = call.query
        if not await self._is_own(call, query.serverlessRequestID):
            return Reply(data=[])
        page = await self._service.invocations.page(
            query.serverlessRequestID,
            limit=query.limit,
            after=number_of(query.cursor),
            state=query.state,
            tenants=call.scope.tenants,
        )
        return Reply(
            data=[invocation_summary(record) for record in page.records],
            next=cursor_after(str(page.next)) if page.next else "",
        )

    async def get(self, call: Call[InvocationQuery, None]) -> Reply:
        function, invocation = call.query.serverlessRequestID, call.path("invocationID")
        if not await self._is_own(call, function):
            raise missing_invocation(function, invocation)
        outcome = await self._service.invocations.read(function, invocation)
        return Reply(data=invocation_view(outcome))

    async def cancel(self, call: Call[InvocationQuery, None]) -> Reply:
        function, invocation = call.query.serverlessRequestID, call.path("invocationID")
        if not await self._is_own(call, function):
            raise missing_invocation(function, invocation)
        await self._service.invocations.cancel(function, invocation)
        return Reply(status=204)

    async def _is_own(self, call: Call[Any, Any], function: str) -> bool:
        scope = call.scope
        return not scope.is_bound or await self._service.functions.is_of(scope, function)

    async def _call(self, call: Call[NoQuery, Invoke]) -> Reply:
        """Wait for the end, until the caller has left or this process stops."""

        def is_wanted() -> bool:
            transport = call.request.transport
            is_there = transport is not None and not transport.is_closing()
            return is_there and not self._connection().is_stopping

        outcome = await self._service.invocations.call(call.body, is_wanted=is_wanted)
        return Reply(
            status=200 if outcome.record.state.is_terminal else 202,
            data=invocation_view(outcome),
            headers=REPLAYED if outcome.is_duplicate else NEW,
        )
