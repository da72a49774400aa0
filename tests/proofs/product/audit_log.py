"""Requests of the product's accounts, read from the API server's audit log."""

import time
from collections.abc import Iterator
from typing import Any

import attrs

from tests.proofs.real_cluster.controlplane import ControlPlane
from tests.proofs.real_cluster.product import ProcessError

READING = frozenset({"get", "list", "watch"})
LEASES = {"gpuruntime-manager", "gpuruntime-activator"}
QUIET_SECONDS = 4.0
QUIET_WITHIN_SECONDS = 240.0


@attrs.frozen(kw_only=True)
class Request:
    user: str
    verb: str
    resource: str
    subresource: str
    namespace: str
    name: str
    code: int

    @property
    def is_write(self) -> bool:
        """Return whether it is a write, leaving out Leases and their Events, which leaders keep
        writing.
        """
        is_of_lease = self.resource == "events" and self.name.partition(".")[0] in LEASES
        return self.verb not in READING and self.resource != "leases" and not is_of_lease


def requests_since(plane: ControlPlane, size: int, namespace: str) -> Iterator[Request]:
    """Yield requests of this namespace's service accounts since the log had this size."""
    for event in plane.audit_events(size):
        if event["user"]["username"].startswith(f"system:serviceaccount:{namespace}:"):
            yield _request(event)


def writes_since(plane: ControlPlane, size: int, namespace: str) -> list[Request]:
    return [each for each in requests_since(plane, size, namespace) if each.is_write]


def wait_until_quiet(plane: ControlPlane, namespace: str) -> None:
    """Return after a pause without writes that is longer than any delay of a write."""
    deadline = time.monotonic() + QUIET_WITHIN_SECONDS
    size = -1
    while size < 0 or (seen := writes_since(plane, size, namespace)):
        if time.monotonic() > deadline:
            raise ProcessError(f"{namespace} still writes: {seen}")
        size = plane.audit_size()
        time.sleep(QUIET_SECONDS)


def _request(event: dict[str, Any]) -> Request:
    about = event["objectRef"]
    return Request(
        user=event["user"]["username"].rpartition(":")[2],
        verb=event["verb"],
        resource=about["resource"],
        subresource=about.get("subresource", ""),
        namespace=about.get("namespace", ""),
        name=about.get("name", ""),
        code=event["responseStatus"]["code"],
    )
