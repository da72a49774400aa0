"""The latest activity of callers in each unit, which the manager reads; nothing is written."""

import msgspec
from aiohttp import web

from gpuruntime.concurrency.clock import loop_time
from gpuruntime.gateway.connections import Connections
from gpuruntime.models.kinds.activity import ACTIVITY_PATH, ActivityReport, UnitActivity


def activity_app(connections: Connections, boot: str) -> web.Application:
    since = loop_time()

    async def activity(_: web.Request) -> web.Response:
        units = {
            uid: UnitActivity(last=last, open=count)
            for uid, (last, count) in connections.activity().items()
        }
        report = ActivityReport(boot=boot, since=since, now=loop_time(), units=units)
        return web.Response(body=msgspec.json.encode(report), content_type="application/json")

    app = web.Application()
    app.router.add_get(ACTIVITY_PATH, activity)
    return app
