"""The GPUs that Pods hold on each node, counted as Pods come and go."""

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Final

import attrs

from gpuruntime.models.kinds import labels
from gpuruntime.models.kubernetes.pod_requests import RequestingPod
from gpuruntime.operations.lookup.caches import Cache
from gpuruntime.operations.lookup.counts import Counts
from gpuruntime.operations.options import Namespaces


class Holder(StrEnum):
    STOCK = "stock"
    UNITS = "units"
    # Pods that are not ours.
    OTHERS = "others"


@attrs.frozen(kw_only=True, slots=True)
class HeldGpus:
    by_stock: int
    by_units: int
    by_others: int

    @property
    def total(self) -> int:
        return self.by_stock + self.by_units + self.by_others


class GpuUsage:
    """GpuUsage counts the GPUs that Pods request; create it before its informer runs.

    `why_unknown` returns why the Pods are not known, for lack of a right for example, or nothing.
    """

    def __init__(
        self,
        pods: Cache[RequestingPod],
        *,
        namespaces: Namespaces,
        resource: str,
        why_unknown: Callable[[], str],
    ) -> None:
        self.resource: Final = resource
        self._why_unknown = why_unknown
        self._holders: Mapping[str, Holder] = {
            namespaces.stock: Holder.STOCK,
            namespaces.instance: Holder.UNITS,
        }
        self._held = Counts(
            pods,
            self._holder_of,
            group_of=lambda pod: pod.spec.nodeName,
            amount_of=lambda pod: pod.requested(resource),
        )

    @property
    def error(self) -> str:
        return self._why_unknown()

    def held_on(self, node: str) -> HeldGpus | None:
        """Return the GPUs that Pods on the node hold, or None if the Pods are not known."""
        if self.error:
            return None
        held = self._held.of(node)
        return HeldGpus(
            by_stock=held.get(Holder.STOCK, 0),
            by_units=held.get(Holder.UNITS, 0),
            by_others=held.get(Holder.OTHERS, 0),
        )

    def _holder_of(self, pod: RequestingPod) -> str:
        is_ours = labels.UNIT in pod.metadata.labels
        holder = self._holders.get(pod.metadata.namespace, Holder.OTHERS)
        return holder if is_ours else Holder.OTHERS
