"""The product's own audit, run after each step and once more at the end."""

import asyncio
from collections.abc import Callable, Iterable
from typing import Any, Final

from gpuruntime.audit.audit import suspicions
from gpuruntime.audit.breach import AUDITED, Suspicion
from gpuruntime.audit.snapshot import Snapshot
from gpuruntime.models.kinds import labels
from gpuruntime.models.kinds.pools import STOCK_POOLS
from gpuruntime.models.kinds.storages import GPU_STORAGES
from gpuruntime.models.kinds.tombstones import TOMBSTONE_APP
from gpuruntime.models.kinds.units import GPU_UNITS
from gpuruntime.models.kubernetes.cluster import CONFIG_MAPS
from gpuruntime.models.kubernetes.metadata import Key
from gpuruntime.models.kubernetes.network import NETWORK_POLICIES, SERVICES
from gpuruntime.models.kubernetes.pods import PODS
from gpuruntime.models.kubernetes.volumes import JOBS, VOLUME_CLAIMS
from gpuruntime.models.kubernetes.workloads import DEPLOYMENTS
from tests.proofs.simulation.checks.suspicion_durations import SuspicionDurations

OWN_KINDS: Final = frozenset({GPU_UNITS.kind, STOCK_POOLS.kind, GPU_STORAGES.kind})
# Rules without any allowed time here, because no story lowers the limit of a function.
NEVER: Final = frozenset({"worker-limit"})
# Rules whose suspicions never last longer than allowed, whatever faults a run has.
LASTING: Final = frozenset(
    {"function-owner", "template-runs-nothing", "worker-drains", "worker-minimum"}
)


class ContinuousAudit:
    """Reports suspicions whose rule allows no time at once, and all others at the end of a run.

    Suspicions of LASTING rules are also reported if they last too long. A step is all writes of
    one moment; two processes never write at the same moment.
    """

    def __init__(self, stock_namespace: str, breach: Callable[[str], None]) -> None:
        self._stock_namespace = stock_namespace
        self._breach = breach
        self._held: dict[str, dict[Key, Any]] = {each.kind: {} for each in AUDITED}
        self._is_due = False
        self._durations = SuspicionDurations()

    def note(self, kind: str, key: Key, value: Any) -> None:
        held = self._held[kind]
        if value is not None and _is_ours(kind, value):
            held[key] = value
        elif held.pop(key, None) is None:
            return
        if not self._is_due:
            self._is_due = True
            asyncio.get_running_loop().call_later(0.0, self._step)

    def held(self, kind: str) -> tuple[Any, ...]:
        """Return the audited objects of this kind."""
        return tuple(self._held[kind].values())

    def check_end(self) -> None:
        self._report(self._suspicions())

    def _step(self) -> None:
        self._is_due = False
        found = self._suspicions()
        self._report(each for each in found if not each.finding.allowed_seconds)
        self._report(each for each in found if each.rule in NEVER)
        lasting = [each for each in found if each.rule in LASTING]
        now = asyncio.get_running_loop().time()
        self._report(self._durations.too_long(lasting, now))

    def _report(self, found: Iterable[Suspicion]) -> None:
        for each in found:
            objects = ", ".join(map(str, each.finding.objects))
            self._breach(f"audit {each.rule}: {objects}: {each.finding.message}")

    def _suspicions(self) -> list[Suspicion]:
        units = self._held[GPU_UNITS.kind]
        return suspicions(
            Snapshot(
                stock=tuple(units[key] for key in units if key.namespace == self._stock_namespace),
                units=tuple(units[key] for key in units if key.namespace != self._stock_namespace),
                pools=self.held(STOCK_POOLS.kind),
                storages=self.held(GPU_STORAGES.kind),
                deployments=self.held(DEPLOYMENTS.kind),
                services=self.held(SERVICES.kind),
                policies=self.held(NETWORK_POLICIES.kind),
                pods=self.held(PODS.kind),
                claims=self.held(VOLUME_CLAIMS.kind),
                jobs=self.held(JOBS.kind),
                tombstones=self.held(CONFIG_MAPS.kind),
            )
        )


def _is_ours(kind: str, value: Any) -> bool:
    """Return whether the manager would mirror the object."""
    marks = value.metadata.labels
    if kind == CONFIG_MAPS.kind:
        return marks.get(labels.APP_NAME) == TOMBSTONE_APP  # type: ignore[no-any-return]
    return kind in OWN_KINDS or marks.get(labels.MANAGED_BY) == labels.MANAGER
