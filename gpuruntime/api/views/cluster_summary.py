"""A summary of the cluster: nodes, GPUs, and stock and units of each specName."""

from collections.abc import Iterable, Iterator, Mapping

from gpuruntime.models.kinds import labels
from gpuruntime.models.kinds.phases import UnitPhase
from gpuruntime.models.kinds.units import GPUUnit
from gpuruntime.models.kubernetes.cluster import Node, ResourceQuota
from gpuruntime.models.kubernetes.quantities import InvalidQuantityError, parse_quantity
from gpuruntime.models.views.operators import (
    ActiveCounts,
    FleetView,
    GpuProductView,
    NodeView,
    QuotaView,
    SpecView,
    StockCounts,
)
from gpuruntime.operations.lookup.caches import Store
from gpuruntime.operations.lookup.counts import Counts, StockState


class ClusterSummary:
    """Sums up the cluster from caches alone."""

    def __init__(
        self,
        *,
        nodes: Store[Node],
        quotas: Store[ResourceQuota],
        stock: Counts[GPUUnit],
        active: Counts[GPUUnit],
        gpu_resource: str,
    ) -> None:
        self._nodes = nodes
        self._quotas = quotas
        self.stock = stock
        self.active = active
        self._gpu_resource = gpu_resource

    def view(self) -> FleetView:
        nodes = self.nodes()
        return FleetView(
            nodes=nodes,
            gpuProducts=gpu_products_of(nodes),
            specs=self.specs(),
            quotas=sorted(self._quota_views(), key=lambda quota: (quota.namespace, quota.name)),
        )

    def nodes(self) -> list[NodeView]:
        views = (node_view(node, self._gpu_resource) for node in self._nodes.values())
        return sorted(views, key=lambda node: node.name)

    def specs(self) -> list[SpecView]:
        return [
            SpecView(
                specName=spec_name,
                stock=_stock_counts(self.stock.of(spec_name)),
                active=_active_counts(self.active.of(spec_name)),
            )
            for spec_name in sorted(self.stock.groups | self.active.groups)
        ]

    def _quota_views(self) -> Iterator[QuotaView]:
        for quota in self._quotas.values():
            yield QuotaView(
                namespace=quota.metadata.namespace,
                name=quota.metadata.name,
                hard=quota.status.hard,
                used=quota.status.used,
            )


def node_view(node: Node, gpu_resource: str) -> NodeView:
    capacity, allocatable = node.status.capacity, node.status.allocatable
    return NodeView(
        name=node.metadata.name,
        ready=node.is_ready,
        schedulable=not node.spec.unschedulable,
        gpuProduct=node.metadata.labels.get(labels.GPU_PRODUCT, ""),
        gpuCapacity=_count(capacity.get(gpu_resource, "")),
        gpuAllocatable=_count(allocatable.get(gpu_resource, "")),
        cpuAllocatable=allocatable.get("cpu", ""),
        memoryAllocatable=allocatable.get("memory", ""),
    )


def gpu_products_of(nodes: Iterable[NodeView]) -> list[GpuProductView]:
    """Group nodes with GPUs by product; nodes without the label share the product ""."""
    by_product: dict[str, list[NodeView]] = {}
    for node in nodes:
        if node.gpuCapacity:
            by_product.setdefault(node.gpuProduct, []).append(node)
    return [
        GpuProductView(
            product=product,
            nodes=len(having),
            gpuCapacity=sum(node.gpuCapacity for node in having),
            gpuAllocatable=sum(node.gpuAllocatable for node in having),
        )
        for product, having in sorted(by_product.items())
    ]


def _stock_counts(counted: Mapping[str, int]) -> StockCounts:
    return StockCounts(
        total=sum(counted.values()),
        available=counted.get(StockState.AVAILABLE, 0),
        claimed=counted.get(StockState.CLAIMED, 0),
        progressing=counted.get(StockState.PROGRESSING, 0),
        failed=counted.get(StockState.FAILED, 0),
    )


def _active_counts(counted: Mapping[str, int]) -> ActiveCounts:
    return ActiveCounts(
        total=sum(counted.values()),
        ready=counted.get(UnitPhase.READY, 0),
        progressing=counted.get(UnitPhase.PROGRESSING, 0),
        suspended=counted.get(UnitPhase.SUSPENDED, 0),
        failed=counted.get(UnitPhase.FAILED, 0),
    )


def _count(text: str) -> int:
    """Return a count of GPUs; an absent or malformed quantity counts as 0."""
    try:
        return parse_quantity(text).rounded_up if text else 0
    except InvalidQuantityError:
        return 0
