"""The route that lists functions with their work and their workers."""

from gpuruntime.api.auth.access import FUNCTIONS, Access, Verb
from gpuruntime.api.http.routing import READ, Answer, Call, Form, Reply, Route
from gpuruntime.api.routes.invocations import SERVERLESS, TAG
from gpuruntime.api.views.pages import PageQuery, cursor_after, position_of
from gpuruntime.api.views.serverless import function_view
from gpuruntime.models.views.serverless import FunctionView
from gpuruntime.serverless.calling.functions import Functions


def function_routes(functions: Functions) -> tuple[Route, ...]:
    async def read_page(call: Call[PageQuery, None]) -> Reply:
        cursor = call.query.cursor
        after = position_of(cursor, parts=1)[0] if cursor else ""
        page = await functions.page(limit=call.query.limit, after=after, scope=call.scope)
        return Reply(
            data=[function_view(each) for each in page.functions],
            next=cursor_after(page.next) if page.next else "",
        )

    return (
        Route(
            method="GET",
            path=f"{SERVERLESS}/functions",
            name="listFunctions",
            access=Access(verb=Verb.LIST, resource=FUNCTIONS),
            handler=read_page,
            summary="List functions by name",
            query=PageQuery,
            answers=(
                Answer(
                    status=200,
                    description="A page of functions.",
                    form=Form.PAGE,
                    model=FunctionView,
                ),
            ),
            errors=READ,
            tag=TAG,
        ),
    )
