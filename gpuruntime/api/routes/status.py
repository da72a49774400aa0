"""The routes that report the health of the service and the state of the fleet."""

from gpuruntime.api.auth.access import INVENTORY, OPEN, Access, Place, Verb
from gpuruntime.api.http.routing import LOCAL, READ, Answer, AnyQuery, Call, NoQuery, Reply, Route
from gpuruntime.api.routes.stock import OPERATOR
from gpuruntime.api.views.cluster_summary import ClusterSummary
from gpuruntime.api.views.health import Health
from gpuruntime.models.views.operators import FleetView, HealthView


def status_routes(health: Health, fleet: ClusterSummary) -> tuple[Route, ...]:
    async def read_health(_: Call[AnyQuery, None]) -> Reply:
        return Reply(data=health.view())

    async def read_fleet(_: Call[NoQuery, None]) -> Reply:
        return Reply(data=fleet.view())

    return (
        Route(
            name="getHealth",
            access=OPEN,
            is_untimed=True,
            method="GET",
            path="/api/v1/health",
            handler=read_health,
            summary="The health of the service, whatever the cluster does",
            query=AnyQuery,
            answers=(Answer(status=200, description="Always.", model=HealthView),),
            errors=LOCAL,
            needs_cluster=False,
            tag="status",
        ),
        Route(
            name="getInventory",
            access=Access(verb=Verb.GET, resource=INVENTORY, place=Place.ALL),
            is_untimed=True,
            method="GET",
            path=f"{OPERATOR}/inventory",
            handler=read_fleet,
            summary="Nodes, GPUs, stock and units per specName, quotas",
            answers=(Answer(status=200, description="As of the caches.", model=FleetView),),
            errors=READ,
            tag="status",
        ),
    )
