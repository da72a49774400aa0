"""The route that tells every caller what it may ask for."""

from gpuruntime.api.auth.access import KNOWN
from gpuruntime.api.http.routing import READ, Answer, Call, Form, Reply, Route
from gpuruntime.api.views.flavours import Flavours
from gpuruntime.api.views.pages import PageQuery, cursor_after, position_of
from gpuruntime.models.views.flavours import FlavourView


def flavour_route(flavours: Flavours) -> Route:
    async def read_page(call: Call[PageQuery, None]) -> Reply:
        cursor = call.query.cursor
        after = position_of(cursor, parts=1)[0] if cursor else ""
        views, last = flavours.page(limit=call.query.limit, after=after)
        return Reply(data=views, next=cursor_after(last) if last else "")

    return Route(
        method="GET",
        path="/api/v1/flavours",
        name="listFlavours",
        access=KNOWN,
        is_untimed=True,
        handler=read_page,
        summary="List the units that can be asked for, by specName",
        query=PageQuery,
        answers=(
            Answer(
                status=200, description="A page of flavours.", form=Form.PAGE, model=FlavourView
            ),
        ),
        errors=READ,
        tag="units",
    )
