"""A summary of the cluster: nodes, GPUs and who holds them, stock and units of each specName."""

from collections.abc import Iterable, Iterator, Mapping

from gpuruntime.api.views.gpu_usage import GpuUsage
from gpuruntime.models.kinds import labels
from gpuruntime.models.kinds.phases import UnitPhase
from gpuruntime.models.kinds.units import GPUUnit
from gpuruntime.models.kubernetes.cluster import Node, ResourceQuota
from gpuruntime.models.kubernetes.quantities import count_of
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
        gpus: GpuUsage,
    ) -> None:
        self._nodes = nodes
        self._quotas = quotas
        self.stock = stock
        self.active = active
        self.gpus = gpus

    def view(self) -> FleetView:
        nodes = self.nodes()
        return FleetView(
            nodes=nodes,
            gpuProducts=gpu_products_of(nodes),
            gpuUsageError=self.gpus.error,
            specs=self.specs(),
            quotas=sorted(self._quota_views(), key=lambda quota: (quota.namespace, quota.name)),
        )

    def nodes(self) -> list[NodeView]:
        return node_views(self._nodes, self.gpus)

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


def node_views(nodes: Store[Node], gpus: GpuUsage) -> list[NodeView]:
    return sorted((node_view(node, gpus) for node in nodes.values()), key=lambda node: node.name)


def node_view(node: Node, gpus: GpuUsage) -> NodeView:
    capacity, allocatable = node.status.capacity, node.status.allocatable
    usable = count_of(allocatable.get(gpus.resource, ""))
    held = gpus.held_on(node.metadata.name)
    return NodeView(
        name=node.metadata.name,
        ready=node.is_ready,
        schedulable=not node.spec.unschedulable,
        gpuProduct=node.metadata.labels.get(labels.GPU_PRODUCT, ""),
        gpuCapacity=count_of(capacity.get(gpus.resource, "")),
        gpuAllocatable=usable,
        gpuHeldByStock=held.by_stock if held else None,
        gpuHeldByUnits=held.by_units if held else None,
        gpuHeldByOthers=held.by_others if held else None,
        gpuFree=max(0, usable - held.total) if held else None,
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
            gpuHeldByStock=total_of(node.gpuHeldByStock for node in having),
            gpuHeldByUnits=total_of(node.gpuHeldByUnits for node in having),
            gpuHeldByOthers=total_of(node.gpuHeldByOthers for node in having),
            gpuFree=total_of(node.gpuFree for node in having),
        )
        for product, having in sorted(by_product.items())
    ]


def gpu_rows(nodes: Store[Node], gpus: GpuUsage) -> dict[tuple[str, ...], float]:
    """Return the values of the metric by product and state."""
    return {
        (each.product, state): number
        for each in gpu_products_of(node_views(nodes, gpus))
        for state, number in _by_state(each)
    }


def node_gpu_rows(nodes: Store[Node], gpus: GpuUsage) -> dict[tuple[str, ...], float]:
    """Return the values of the metric by node, product and state, for nodes with GPUs."""
    return {
        (each.name, each.gpuProduct, state): number
        for each in node_views(nodes, gpus)
        if each.gpuCapacity
        for state, number in _by_state(each)
    }


def _by_state(view: NodeView | GpuProductView) -> Iterator[tuple[str, int]]:
    """Yield the known numbers by their state."""
    numbers = {
        "capacity": view.gpuCapacity,
        "allocatable": view.gpuAllocatable,
        "stock": view.gpuHeldByStock,
        "units": view.gpuHeldByUnits,
        "others": view.gpuHeldByOthers,
        "free": view.gpuFree,
    }
    for state, number in numbers.items():
        if number is not None:
            yield state, number


def total_of(numbers: Iterable[int | None]) -> int | None:
    """Return the sum, or None if a number is unknown."""
    known = list(numbers)
    return None if None in known else sum(each or 0 for each in known)


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
