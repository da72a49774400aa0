"""The routes that list functions, and read one, with their work and their workers."""

from gpuruntime.api.auth.access import FUNCTIONS, Access, Verb
from gpuruntime.api.http.routing import READ, Answer, Call, Form, NoQuery, Reply, Route
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

    async def read(call: Call[NoQuery, None]) -> Reply:
        found = await functions.get(call.path("serverlessRequestID"), call.scope)
        return Reply(data=function_view(found))

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
        Route(
            method="GET",
            path=f"{SERVERLESS}/functions/{{serverlessRequestID}}",
            name="getFunction",
            access=Access(verb=Verb.GET, resource=FUNCTIONS),
            handler=read,
            summary="Read a function with its work and its workers",
            answers=(Answer(status=200, description="The function.", model=FunctionView),),
            errors=(*READ, "function_not_found"),
            tag=TAG,
        ),
    )
