"""Views as the API answers them, for servers that a test scripts."""

from datetime import UTC, datetime
from typing import Any

import attrs
import msgspec

from gpuruntime.models.kinds.storages import Accessor, AccessorStatus, PrepareStatus
from gpuruntime.models.kinds.templates import Template
from gpuruntime.models.kinds.units import Timeline
from gpuruntime.models.views.pools import PoolView
from gpuruntime.models.views.storages import StorageView
from gpuruntime.models.views.units import AccessView, UnitView

NOW = datetime(2026, 1, 1, tzinfo=UTC)
UNIT = UnitView(
    name="demo",
    namespace="runtime-instance",
    lifecycle="instance",
    tenant="",
    specName="g1.1",
    image="python:3.12",
    cpu="1",
    memory="16Gi",
    gpu=1,
    gpuProduct="",
    template=Template(),
    access=AccessView(
        primaryPort="",
        scheme="http",
        readiness="tcp",
        wake=False,
        sshKeys=(),
        generation=0,
    ),
    storageMounts=(),
    imagePullSecrets=(),
    serverless=None,
    suspended=False,
    phase="Ready",
    reason="DeploymentReady",
    message="",
    conditions=(),
    readyReplicas=1,
    generation=1,
    observedGeneration=1,
    nodeName="node-0",
    serviceName="",
    accessURL="",
    operationID="one",
    sourceStock=None,
    timeline=Timeline(),
    createdAt=NOW,
)
POOL = PoolView(
    name="warm",
    namespace="runtime-stock",
    operationID="one",
    specName="g1.1",
    cpu="1",
    memory="16Gi",
    gpu=1,
    gpuProduct="",
    replicas=2,
    refill="Always",
    image="",
    template=Template(),
    phase="Progressing",
    reason="StockProgressing",
    message="",
    conditions=(),
    available=0,
    claimed=0,
    progressing=2,
    failed=0,
    stale=0,
    seeded=2,
    skipped=0,
    consumed=0,
    generation=1,
    observedGeneration=1,
    createdAt=NOW,
)
STORAGE = StorageView(
    name="weights",
    namespace="runtime-instance",
    tenant="",
    operationID="one",
    size="1Gi",
    storageClassName="",
    prepare=None,
    accessor=Accessor(),
    phase="Pending",
    reason="VolumePending",
    message="",
    conditions=(),
    claimName="weights",
    capacity="",
    holder=None,
    mountedBy=(),
    prepareStatus=PrepareStatus(),
    accessorStatus=AccessorStatus(),
    generation=1,
    observedGeneration=1,
    createdAt=NOW,
)


def unit_view(name: str, **members: Any) -> Any:
    """Return the JSON members of a ready unit, with these values of its own."""
    return msgspec.to_builtins(attrs.evolve(UNIT, name=name, **members))
