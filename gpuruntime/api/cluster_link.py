"""This process's link to its cluster, as the role reports it."""

import attrs

from gpuruntime.api.errors import NotServingError


@attrs.frozen(kw_only=True, slots=True)
class ClusterLink:
    """A snapshot of the link; every request takes a new one."""

    is_enabled: bool = True
    is_connected: bool = False
    is_synced: bool = False
    is_queue_connected: bool = False
    is_stopping: bool = False
    # The kind that is refused, or why the cluster cannot be reached; empty while all is well.
    error: str = ""

    @property
    def is_serving(self) -> bool:
        return self.is_enabled and self.is_connected and self.is_synced and not self.is_stopping


def demand_running(connection: ClusterLink) -> None:
    """Raise NotServingError once the process takes no new work."""
    if connection.is_stopping:
        raise NotServingError("this process is stopping: send the request again")


def demand_cluster(connection: ClusterLink) -> None:
    """Raise NotServingError unless units and pools can be read and written."""
    demand_running(connection)
    if not connection.is_enabled:
        raise NotServingError("kubernetes is off here: start with kubernetes.mode auto")
    if not connection.is_connected:
        reason = connection.error or "no answer yet"
        raise NotServingError(f"the cluster cannot be reached: {reason}")
    if not connection.is_synced:
        reason = connection.error or "send the request again"
        raise NotServingError(f"the caches are not in sync with the cluster: {reason}")
