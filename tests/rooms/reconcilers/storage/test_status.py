"""The reported state of a storage's file server."""

from typing import Any

import pytest

from gpuruntime.models.kinds.storages import GPUStorage, GPUStorageSpec, GPUStorageStatus, Holder
from gpuruntime.models.kubernetes.conditions import Condition
from gpuruntime.models.kubernetes.metadata import ObjectMeta
from gpuruntime.models.kubernetes.pods import (
    ContainerState,
    ContainerStatus,
    Pod,
    PodStatus,
    Waiting,
)
from gpuruntime.models.kubernetes.workloads import Deployment, DeploymentStatus
from gpuruntime.reconcilers.storage.children import Placing
from gpuruntime.reconcilers.storage.status import accessor_verdict

STORAGE = GPUStorage(
    metadata=ObjectMeta(name="models"),
    spec=GPUStorageSpec(size="1Gi"),
    status=GPUStorageStatus(holder=Holder(name="demo", uid="u")),
)
QUOTA = 'pods "storage-accessor-models-1" is forbidden: exceeded quota: units'
REFUSED = Condition(type="ReplicaFailure", status="True", reason="FailedCreate", message=QUOTA)
PULL = Waiting(reason="ErrImagePull", message="no such image")
STUCK = Pod(
    metadata=ObjectMeta(name="p"),
    status=PodStatus(
        containerStatuses=(ContainerStatus(name="accessor", state=ContainerState(waiting=PULL)),)
    ),
)
STARTING = Pod(metadata=ObjectMeta(name="p"))


def deployment(**status: Any) -> Deployment:
    return Deployment(status=DeploymentStatus(**status))


@pytest.mark.parametrize(
    ("live", "pods", "placing", "told"),
    [
        (
            deployment(readyReplicas=1),
            (),
            Placing(),
            ("AccessorServing", "the files are served"),
        ),
        (
            deployment(conditions=(REFUSED,)),
            (),
            Placing(),
            ("AccessorFailed", QUOTA),
        ),
        (
            deployment(conditions=(REFUSED,)),
            (STARTING,),
            Placing(),
            ("AccessorProgressing", "Deployment storage-accessor-models is on its way"),
        ),
        (
            deployment(conditions=(REFUSED,), readyReplicas=1),
            (),
            Placing(is_off=True),
            ("AccessorProgressing", "waits until the Pod of unit demo has a node"),
        ),
        (
            deployment(),
            (STUCK,),
            Placing(),
            ("AccessorFailed", "p/accessor: ErrImagePull: no such image"),
        ),
        (
            deployment(),
            (),
            Placing(),
            ("AccessorProgressing", "Deployment storage-accessor-models is on its way"),
        ),
    ],
    ids=[
        "serving",
        "Pod refused by a quota",
        "Pod created after a refusal",
        "switched off for a Pod without a node",
        "image cannot be pulled",
        "no Pod yet",
    ],
)
def test_an_accessor_reports_why_it_does_not_serve(
    live: Deployment, pods: tuple[Pod, ...], placing: Placing, told: tuple[str, str]
) -> None:
    verdict = accessor_verdict(STORAGE, live, pods, placing)

    assert (verdict.reason, verdict.message) == told
    assert verdict.is_true == (told[0] == "AccessorServing")
