"""The routes of dead letters: list them, redrive or discard one."""

from typing import Final

import attrs

from gpuruntime.api.auth.access import DEAD_LETTERS, Access, Verb
from gpuruntime.api.http.headers import MEANING_OF_REPLAY, REPLAYED
from gpuruntime.api.http.routing import READ, Answer, Call, Form, NoQuery, Reply, Route
from gpuruntime.api.routes.invocations import QUEUED, SERVERLESS, TAG
from gpuruntime.api.views.pages import DEFAULT_LIMIT, Cursor, Limit, cursor_after, number_of
from gpuruntime.api.views.serverless import accepted_view, dead_letter_view
from gpuruntime.models.requests.invocations import FunctionID
from gpuruntime.models.views.serverless import AcceptedView, DeadLetterView
from gpuruntime.serverless.calling.service import FunctionService
from gpuruntime.strict.structure import Problem, StrictError

LETTERS: Final = f"{SERVERLESS}/dead-letters"
LETTER: Final = f"{LETTERS}/{{deadLetterID}}"


@attrs.frozen(kw_only=True, slots=True)
class DeadLetterQuery:
    """Dead letters of one function, or of all."""

    serverlessRequestID: FunctionID = ""
    limit: Limit = DEFAULT_LIMIT
    cursor: Cursor = ""


def dead_letter_routes(service: FunctionService) -> tuple[Route, ...]:
    handlers = _DeadLetterHandlers(service)
    return (
        Route(
            method="GET",
            path=LETTERS,
            name="listDeadLetters",
            access=Access(verb=Verb.LIST, resource=DEAD_LETTERS),
            handler=handlers.list,
            summary="List dead letters, the oldest first",
            query=DeadLetterQuery,
            answers=(
                Answer(
                    status=200,
                    description="A page of dead letters.",
                    form=Form.PAGE,
                    model=DeadLetterView,
                ),
            ),
            errors=QUEUED,
            needs_cluster=False,
            tag=TAG,
        ),
        Route(
            method="POST",
            path=f"{LETTER}/redrive",
            name="redriveDeadLetter",
            access=Access(verb=Verb.UPDATE, resource=DEAD_LETTERS),
            handler=handlers.redrive,
            summary="Let a dead invocation run again, with all its attempts",
            answers=(
                Answer(
                    status=202,
                    description="The invocation is queued again, and the dead letter is deleted.",
                    model=AcceptedView,
                ),
                Answer(
                    status=200,
                    description="It was redriven before: the invocation as it is now.",
                    model=AcceptedView,
                    headers=MEANING_OF_REPLAY,
                ),
            ),
            errors=(
                *READ,
                "dead_letter_not_found",
                "function_not_found",
                "operation_conflict",
                "queue_full",
            ),
            needs_cluster=False,
            tag=TAG,
        ),
        Route(
            method="DELETE",
            path=LETTER,
            name="discardDeadLetter",
            access=Access(verb=Verb.DELETE, resource=DEAD_LETTERS),
            handler=handlers.discard,
            summary="Discard a dead letter",
            answers=(
                Answer(status=204, description="The dead letter is deleted.", form=Form.EMPTY),
            ),
            errors=(*QUEUED, "dead_letter_not_found"),
            needs_cluster=False,
            tag=TAG,
        ),
    )


class _DeadLetterHandlers:
    def __init__(self, service: FunctionService) -> None:
        self._service = service

    async def list(self, call: Call[DeadLetterQuery, None]) -> Reply:
        query = call.query
        if call.scope.is_bound and not await self._is_own(call):
            return Reply(data=[])
        page = await self._service.dead_letters.page(
            function=query.serverlessRequestID, limit=query.limit, after=number_of(query.cursor)
        )
        return Reply(
            data=[dead_letter_view(letter) for letter in page.letters],
            next=cursor_after(str(page.next)) if page.next else "",
        )

    async def _is_own(self, call: Call[DeadLetterQuery, None]) -> bool:
        """Return whether the function is the caller's. A bound caller has to name one."""
        function = call.query.serverlessRequestID
        if not function:
            message = "is needed: name one of your functions"
            raise StrictError((Problem(field="serverlessRequestID", message=message),))
        return await self._service.functions.is_of(call.scope, function)

    async def redrive(self, call: Call[NoQuery, None]) -> Reply:
        accepted = await self._service.dead_letters.redrive(call.path("deadLetterID"), call.scope)
        view = accepted_view(accepted, self._service.queue.names)
        if accepted.is_duplicate:
            return Reply(data=view, headers=REPLAYED)
        return Reply(status=202, data=view)

    async def discard(self, call: Call[NoQuery, None]) -> Reply:
        await self._service.dead_letters.discard(call.path("deadLetterID"), call.scope)
        return Reply(status=204)
