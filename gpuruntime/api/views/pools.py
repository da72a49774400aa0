"""Views of pools, made from their objects."""

from gpuruntime.models.kinds import provenance
from gpuruntime.models.kinds.phases import pool_phase_of
from gpuruntime.models.kinds.pools import StockPool
from gpuruntime.models.kinds.reasons import ConditionType
from gpuruntime.models.kubernetes.conditions import Condition, condition_of
from gpuruntime.models.views.pools import PoolView

_NO_CONDITION = Condition(type=ConditionType.READY)


def pool_view(pool: StockPool) -> PoolView:
    metadata, spec, status = pool.metadata, pool.spec, pool.status
    ready = condition_of(status.conditions, ConditionType.READY) or _NO_CONDITION
    return PoolView(
        name=metadata.name,
        namespace=metadata.namespace,
        operationID=provenance.operation_of(pool),
        specName=spec.specName,
        cpu=spec.cpu,
        memory=spec.memory,
        gpu=spec.gpu,
        gpuProduct=spec.gpuProduct,
        replicas=spec.replicas,
        refill=spec.refill,
        image=spec.image,
        template=spec.template,
        phase=pool_phase_of(status.conditions),
        reason=ready.reason,
        message=ready.message,
        conditions=status.conditions,
        available=status.available,
        claimed=status.claimed,
        progressing=status.progressing,
        failed=status.failed,
        seeded=status.seeded,
        consumed=status.consumed,
        generation=metadata.generation,
        observedGeneration=status.observedGeneration,
        createdAt=metadata.creationTimestamp,
    )
