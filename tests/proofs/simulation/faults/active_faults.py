"""The faults that affect a process now: outages, and faults that wait for their request."""

from collections.abc import Mapping
from typing import Final

from gpuruntime.kube.transport import Request
from tests.faults import WRITES
from tests.proofs.simulation.faults.kinds import PlannedFault, Target
from tests.proofs.simulation.faults.stale_lists import StaleLists

LEASES: Final = "/leases"
METHODS: Final[Mapping[Target, frozenset[str]]] = {
    Target.WRITE: WRITES,
    Target.CREATE: frozenset({"POST"}),
    Target.PATCH: frozenset({"PATCH", "PUT"}),
    Target.DELETE: frozenset({"DELETE"}),
    Target.READ: frozenset({"GET"}),
    Target.LIST: frozenset({"GET"}),
    Target.NEXT_PAGE: frozenset({"GET"}),
}


class ActiveFaults:
    """The faults of one process, through all of its restarts."""

    def __init__(self) -> None:
        self.armed: list[PlannedFault] = []
        self.stale_lists = StaleLists()
        self._passed: dict[PlannedFault, int] = {}
        self.partitioned_until = 0.0
        self.lease_lost_until = 0.0
        self.watches_refused_until = 0.0

    def clear(self) -> None:
        self.armed.clear()
        self.stale_lists.forget()
        self.partitioned_until = self.lease_lost_until = self.watches_refused_until = 0.0

    def hit(self, request: Request) -> PlannedFault | None:
        for fault in self.armed:
            if not _is_meant(fault, request):
                continue
            passed = self._passed.get(fault, 0)
            if passed >= fault.skip:
                self.armed.remove(fault)
                return fault
            self._passed[fault] = passed + 1
        return None


def is_list(request: Request) -> bool:
    return request.method == "GET" and any(name == "limit" for name, _ in request.query)


def _is_meant(fault: PlannedFault, request: Request) -> bool:
    assert fault.target is not None
    if LEASES in request.path or request.method not in METHODS[fault.target]:
        return False
    if fault.aim not in request.path and fault.aim.encode() not in (request.body or b""):
        return False
    if fault.target is Target.NEXT_PAGE:
        return any(name == "continue" for name, _ in request.query)
    return fault.target is not Target.LIST or is_list(request)
