"""The latest activity of callers in each unit, which the manager reads; nothing is written."""

from typing import Final

import attrs
import msgspec
from aiohttp import web

from gpuruntime.concurrency.clock import loop_time
from gpuruntime.gateway.connections import Connections

PATH: Final = "/activity"


@attrs.frozen(kw_only=True, slots=False)
class UnitActivity:
    """`last` is when bytes last came from a caller, and `open` the number of connections."""

    last: float
    open: int


@attrs.frozen(kw_only=True, slots=False)
class ActivityView:
    """The activity that this replica saw; every time is in seconds of its monotonic clock.

    `boot` differs after a restart, and `since` is when the replica began to look.
    """

    boot: str
    since: float
    now: float
    units: dict[str, UnitActivity]


def activity_app(connections: Connections, boot: str) -> web.Application:
    since = loop_time()

    async def activity(_: web.Request) -> web.Response:
        units = {
            uid: UnitActivity(last=last, open=count)
            for uid, (last, count) in connections.activity().items()
        }
        view = ActivityView(boot=boot, since=since, now=loop_time(), units=units)
        return web.Response(body=msgspec.json.encode(view), content_type="application/json")

    app = web.Application()
    app.router.add_get(PATH, activity)
    return app
