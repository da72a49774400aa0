"""The health of this process, answered from memory whatever the cluster does."""

from collections.abc import Callable
from datetime import datetime

from gpuruntime.api.cluster_link import ClusterLink
from gpuruntime.api.views.cluster_summary import ClusterSummary, gpu_products_of, total_of
from gpuruntime.models.views.operators import HealthStatus, HealthView
from gpuruntime.operations.lookup.counts import StockState


class Health:
    def __init__(
        self,
        fleet: ClusterSummary,
        *,
        connection: Callable[[], ClusterLink],
        now: Callable[[], datetime],
        version: str,
    ) -> None:
        self._fleet = fleet
        self._connection = connection
        self._now = now
        self._version = version
        self._started_at = now()

    def view(self) -> HealthView:
        connection, nodes = self._connection(), self._fleet.nodes()
        is_well = connection.is_serving or not connection.is_enabled
        uptime = self._now() - self._started_at
        return HealthView(
            status=HealthStatus.OK if is_well else HealthStatus.DEGRADED,
            version=self._version,
            startedAt=self._started_at,
            uptimeSeconds=max(0.0, uptime.total_seconds()),
            kubernetesConnected=connection.is_connected,
            kubernetesError=connection.error,
            cacheSynced=connection.is_synced,
            queueConnected=connection.is_queue_connected,
            activeUnitCount=self._fleet.active.total,
            stockUnitCount=self._fleet.stock.total,
            readyStockCount=self._fleet.stock.in_state(StockState.AVAILABLE),
            nodeCount=len(nodes),
            readyNodeCount=sum(node.ready for node in nodes),
            totalGPUCapacity=sum(node.gpuCapacity for node in nodes),
            totalGPUAllocatable=sum(node.gpuAllocatable for node in nodes),
            totalGPUHeldByStock=total_of(node.gpuHeldByStock for node in nodes),
            totalGPUHeldByUnits=total_of(node.gpuHeldByUnits for node in nodes),
            totalGPUHeldByOthers=total_of(node.gpuHeldByOthers for node in nodes),
            totalGPUFree=total_of(node.gpuFree for node in nodes),
            gpuUsageError=self._fleet.gpus.error,
            gpuProducts=[found.product for found in gpu_products_of(nodes) if found.product],
        )
