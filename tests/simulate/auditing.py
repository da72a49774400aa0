"""The product's own audit, asked after each write, and once more when all is at rest."""

from collections.abc import Callable, Iterator
from typing import Any, Final

from gpuruntime.audit.audit import suspicions
from gpuruntime.audit.breach import Suspicion
from gpuruntime.audit.snapshot import Snapshot
from gpuruntime.models import labels
from gpuruntime.models.cluster import CONFIG_MAPS
from gpuruntime.models.metadata import Key
from gpuruntime.models.network import SERVICES
from gpuruntime.models.pods import PODS
from gpuruntime.models.pools import STOCK_POOLS
from gpuruntime.models.resources import Resource
from gpuruntime.models.tombstones import TOMBSTONE_APP
from gpuruntime.models.units import GPU_UNITS
from gpuruntime.models.workloads import DEPLOYMENTS

AUDITED: Final[tuple[Resource[Any], ...]] = (
    GPU_UNITS,
    STOCK_POOLS,
    DEPLOYMENTS,
    SERVICES,
    PODS,
    CONFIG_MAPS,
)


class Auditing:
    """What may be there for a while is none of a step's business: only at rest it is."""

    def __init__(self, stock_namespace: str, breach: Callable[[str], None]) -> None:
        self._stock_namespace = stock_namespace
        self._breach = breach
        self._held: dict[str, dict[Key, Any]] = {each.kind: {} for each in AUDITED}

    def step(self, kind: str, key: Key, value: Any) -> None:
        held = self._held[kind]
        if value is None:
            held.pop(key, None)
        elif _is_ours(kind, value):
            held[key] = value
        self._tell(each for each in self._suspicions() if not each.finding.allowed_seconds)

    def rest(self) -> None:
        self._tell(iter(self._suspicions()))

    def _tell(self, found: Iterator[Suspicion]) -> None:
        for each in found:
            objects = ", ".join(map(str, each.finding.objects))
            self._breach(f"audit {each.rule}: {objects}: {each.finding.message}")

    def _suspicions(self) -> list[Suspicion]:
        units = self._held[GPU_UNITS.kind]
        return suspicions(
            Snapshot(
                stock=tuple(units[key] for key in units if key.namespace == self._stock_namespace),
                units=tuple(units[key] for key in units if key.namespace != self._stock_namespace),
                pools=tuple(self._held[STOCK_POOLS.kind].values()),
                deployments=tuple(self._held[DEPLOYMENTS.kind].values()),
                services=tuple(self._held[SERVICES.kind].values()),
                pods=tuple(self._held[PODS.kind].values()),
                tombstones=tuple(self._held[CONFIG_MAPS.kind].values()),
            )
        )


def _is_ours(kind: str, value: Any) -> bool:
    """As the manager selects what it mirrors."""
    marks = value.metadata.labels
    if kind == CONFIG_MAPS.kind:
        return marks.get(labels.APP_NAME) == TOMBSTONE_APP  # type: ignore[no-any-return]
    if kind in (GPU_UNITS.kind, STOCK_POOLS.kind):
        return True
    return marks.get(labels.MANAGED_BY) == labels.MANAGER  # type: ignore[no-any-return]
