"""Pure decision where a file server runs: on the node of its unit's Pod, moved rarely.

A move restarts the file server. A volume is on one node at a time, until the last Pod there is
gone.
"""

from collections.abc import Sequence

from gpuruntime.models.kubernetes.pods import Pod
from gpuruntime.reconcilers.storage.children import Placing
from gpuruntime.reconcilers.unit.pod_failures import current_pod, is_unschedulable


def placing_of_server(holders: Sequence[Pod], before: Placing, *, is_stuck: bool) -> Placing:
    """Return where the file server should run.

    `holders` are the Pods of the unit that holds the volume, terminating ones included. `is_stuck`
    says that the file server's own Pod cannot be scheduled.
    """
    placed = [pod for pod in holders if pod.spec.nodeName]
    if placed:
        return Placing(node=(current_pod(placed) or placed[0]).spec.nodeName)
    waiting = current_pod(holders)
    if waiting is None:
        return Placing(node="" if is_stuck else before.node)
    return Placing(is_off=True) if is_unschedulable(waiting) else before
