"""Pods, as far as they show what they request of their node."""

from collections.abc import Iterable
from typing import Final

import attrs

from gpuruntime.models.kubernetes.metadata import ObjectMeta
from gpuruntime.models.kubernetes.quantities import count_of
from gpuruntime.models.kubernetes.resources import Resource

# Pods that have a node and have not ended: the node's resources are theirs.
PLACED: Final = "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed"


@attrs.frozen(kw_only=True, slots=True)
class ContainerResources:
    """Amounts by resource name; an API server writes texts, and a user may write numbers."""

    requests: dict[str, str | int | float] = attrs.field(factory=dict)


@attrs.frozen(kw_only=True, slots=True)
class RequestingContainer:
    restartPolicy: str = ""
    resources: ContainerResources = ContainerResources()


@attrs.frozen(kw_only=True, slots=True)
class RequestingPodSpec:
    nodeName: str = ""
    containers: tuple[RequestingContainer, ...] = ()
    initContainers: tuple[RequestingContainer, ...] = ()


@attrs.frozen(kw_only=True, slots=True)
class RequestingPod:
    metadata: ObjectMeta = attrs.field(factory=ObjectMeta)
    spec: RequestingPodSpec = RequestingPodSpec()

    def requested(self, resource: str) -> int:
        """Return how much of a counted resource the scheduler keeps for the Pod.

        Init containers run one after the other. Those that always restart stay beside the rest.
        """
        sidecars, most = 0, 0
        for container in self.spec.initContainers:
            asked = count_of(container.resources.requests.get(resource, ""))
            most = max(most, sidecars + asked)
            sidecars += asked if container.restartPolicy == "Always" else 0
        return max(most, sidecars + _sum(resource, self.spec.containers))


def _sum(resource: str, containers: Iterable[RequestingContainer]) -> int:
    return sum(count_of(each.resources.requests.get(resource, "")) for each in containers)


REQUESTING_PODS: Final = Resource(
    group="", version="v1", kind="Pod", plural="pods", type=RequestingPod
)
