"""The injector of planned faults into one process, the holder of a role, all workers, or all."""

from tests.proofs.broker_conformance.server import Server
from tests.proofs.simulation.checks.invocations import NAMES
from tests.proofs.simulation.faults.kinds import ALL_WORKERS, BROKER, BrokerFaultKind, PlannedFault
from tests.proofs.simulation.processes import Fleet
from tests.proofs.simulation.workers import Workers


class FaultInjector:
    def __init__(self, fleet: Fleet, workers: Workers, broker: Server) -> None:
        self._fleet = fleet
        self._workers = workers
        self._broker = broker

    def inject(self, fault: PlannedFault) -> None:
        """Begin a fault whose time has come."""
        if fault.kind is BrokerFaultKind.CONSUMER_DELETED:
            self._delete_consumers()
        elif fault.process == ALL_WORKERS:
            self._workers.inject(fault)
        elif fault.process == BROKER:
            for supervisor in self._fleet.supervisors.values():
                supervisor.inject(fault)
            self._workers.inject(fault)
        else:
            self._fleet.inject(fault)

    def end_faults(self) -> None:
        for supervisor in self._fleet.supervisors.values():
            supervisor.end_faults()
        self._workers.active_faults.clear()

    def _delete_consumers(self) -> None:
        """Delete the consumers as an operator could with the broker's own tools."""
        stream = self._broker.streams.get(NAMES.invocations)
        for name in tuple(stream.consumers) if stream else ():
            self._broker.delete_consumer(NAMES.invocations, name)
