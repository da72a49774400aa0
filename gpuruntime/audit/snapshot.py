"""The objects that an observer has read at one time, and how long it has seen each suspicion."""

from collections.abc import Mapping
from typing import Final

import attrs

from gpuruntime.audit.breach import Identity
from gpuruntime.models.kinds.pools import StockPool
from gpuruntime.models.kinds.storages import GPUStorage
from gpuruntime.models.kinds.units import GPUUnit
from gpuruntime.models.kubernetes.cluster import ConfigMap
from gpuruntime.models.kubernetes.network import NetworkPolicy, Service
from gpuruntime.models.kubernetes.pods import Pod
from gpuruntime.models.kubernetes.volumes import Job, VolumeClaim
from gpuruntime.models.kubernetes.workloads import Deployment

KINDS: Final = (
    "stock",
    "units",
    "pools",
    "storages",
    "deployments",
    "services",
    "policies",
    "pods",
    "claims",
    "jobs",
    "tombstones",
)


@attrs.frozen(kw_only=True, slots=True)
class Snapshot:
    """`stock` and `units` are the GPUUnits of the stock namespace and of the instance namespace.

    None stands for a kind that the observer does not read; rules that need it are not judged.
    `ages` has the seconds for which the observer has seen each suspicion without a gap, by its own
    clock. A suspicion that is missing there is new.
    """

    stock: tuple[GPUUnit, ...] = ()
    units: tuple[GPUUnit, ...] = ()
    pools: tuple[StockPool, ...] = ()
    storages: tuple[GPUStorage, ...] | None = None
    deployments: tuple[Deployment, ...] | None = None
    services: tuple[Service, ...] | None = None
    policies: tuple[NetworkPolicy, ...] | None = None
    pods: tuple[Pod, ...] | None = None
    claims: tuple[VolumeClaim, ...] | None = None
    jobs: tuple[Job, ...] | None = None
    tombstones: tuple[ConfigMap, ...] | None = None
    ages: Mapping[Identity, float] = attrs.field(factory=dict)

    @property
    def object_count(self) -> int:
        return sum(len(getattr(self, kind) or ()) for kind in KINDS)
