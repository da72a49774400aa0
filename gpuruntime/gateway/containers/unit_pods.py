"""The Pod of a unit, read when a session begins.

The gateway keeps no mirror of Pods: it would hold every Pod of the namespace, for sessions that
are few. A session stays with its Pod, so a rollout ends it.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Final

from gpuruntime.gateway.errors import Code, GatewayError
from gpuruntime.kube.client import Client
from gpuruntime.kube.errors import ForbiddenError, KubeError
from gpuruntime.models.kinds import labels
from gpuruntime.models.kinds.units import GPUUnit
from gpuruntime.models.kubernetes.metadata import Key
from gpuruntime.models.kubernetes.pods import PODS, Pod

_RUNNING: Final = "Running"
_BEFORE_ALL: Final = datetime.min.replace(tzinfo=UTC)


async def running_pod(client: Client, unit: GPUUnit) -> Key:
    """Return the newest Pod of this incarnation that runs. Raise GatewayError."""
    selector = f"{labels.UNIT_UID}={unit.metadata.uid}"
    with opening(unit):
        page = await client.list_page(
            PODS, namespace=unit.metadata.namespace, label_selector=selector
        )
    running = [pod for pod in page.items if _is_running(pod)]
    if not running:
        name = unit.metadata.name
        raise GatewayError(
            Code.SERVICE_UNAVAILABLE, f"unit {name} runs no Pod: see its conditions, and retry"
        )
    return max(running, key=_age).metadata.key


@contextmanager
def opening(unit: GPUUnit) -> Iterator[None]:
    """Translate failures of the API server into GatewayError."""
    try:
        yield
    except ForbiddenError as error:
        raise GatewayError(
            Code.SERVICE_UNAVAILABLE,
            f"the gateway may not run commands here: install manifests/gateway-exec ({error})",
        ) from error
    except KubeError as error:
        raise GatewayError(
            Code.UPSTREAM_FAULT, f"unit {unit.metadata.name} cannot be reached: {error}"
        ) from error


def _is_running(pod: Pod) -> bool:
    return pod.status.phase == _RUNNING and pod.metadata.deletionTimestamp is None


def _age(pod: Pod) -> datetime:
    return pod.metadata.creationTimestamp or _BEFORE_ALL
