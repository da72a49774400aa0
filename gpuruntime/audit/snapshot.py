"""The objects of one moment, as an observer has read them, and how long it has seen what."""

from collections.abc import Mapping
from typing import Final

import attrs

from gpuruntime.audit.breach import Identity
from gpuruntime.models.cluster import ConfigMap
from gpuruntime.models.network import Service
from gpuruntime.models.pods import Pod
from gpuruntime.models.pools import StockPool
from gpuruntime.models.units import GPUUnit
from gpuruntime.models.workloads import Deployment

KINDS: Final = ("stock", "units", "pools", "deployments", "services", "pods", "tombstones")


@attrs.frozen(kw_only=True, slots=True)
class Snapshot:
    """`stock` and `units` are GPUUnits of the stock and of the instance namespace.

    None stands for a kind that the observer does not read: what needs it is not judged. `ages`
    are the seconds for which the observer has seen each suspicion without a gap, by its own
    clock; one that is not named there is new.
    """

    stock: tuple[GPUUnit, ...] = ()
    units: tuple[GPUUnit, ...] = ()
    pools: tuple[StockPool, ...] = ()
    deployments: tuple[Deployment, ...] | None = None
    services: tuple[Service, ...] | None = None
    pods: tuple[Pod, ...] | None = None
    tombstones: tuple[ConfigMap, ...] | None = None
    ages: Mapping[Identity, float] = attrs.field(factory=dict)

    @property
    def object_count(self) -> int:
        return sum(len(getattr(self, kind) or ()) for kind in KINDS)
