"""Views of pools, made from their objects."""

from gpuruntime.models.encoding.members import shared
from gpuruntime.models.kinds import provenance
from gpuruntime.models.kinds.phases import pool_phase_of
from gpuruntime.models.kinds.pools import StockPool
from gpuruntime.models.kinds.reasons import ConditionType
from gpuruntime.models.kubernetes.conditions import Condition, condition_of
from gpuruntime.models.views.pools import PoolView

_NO_CONDITION = Condition(type=ConditionType.READY)


def pool_view(pool: StockPool) -> PoolView:
    metadata, status = pool.metadata, pool.status
    ready = condition_of(status.conditions, ConditionType.READY) or _NO_CONDITION
    phase = {"phase": pool_phase_of(status.conditions)}
    return PoolView(
        name=metadata.name,
        namespace=metadata.namespace,
        operationID=provenance.operation_of(pool),
        **shared(pool.spec, PoolView),
        **{**shared(status, PoolView), **phase},
        reason=ready.reason,
        message=ready.message,
        generation=metadata.generation,
        createdAt=metadata.creationTimestamp,
    )
