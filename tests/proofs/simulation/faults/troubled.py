"""Whom a planned fault befalls: one process, whoever has a role, all workers, or everybody."""

from tests.proofs.broker_conformance.server import Server
from tests.proofs.simulation.checks.invocations import NAMES
from tests.proofs.simulation.faults.kinds import ALL_WORKERS, BROKER, BrokerKind, Planned
from tests.proofs.simulation.processes import Fleet
from tests.proofs.simulation.workers import Workers


class Troubled:
    def __init__(self, fleet: Fleet, workers: Workers, broker: Server) -> None:
        self._fleet = fleet
        self._workers = workers
        self._broker = broker

    def trouble(self, fault: Planned) -> None:
        """Its moment has come."""
        if fault.kind is BrokerKind.CONSUMER_DELETED:
            self._delete_consumers()
        elif fault.process == ALL_WORKERS:
            self._workers.trouble(fault)
        elif fault.process == BROKER:
            for machine in self._fleet.machines.values():
                machine.trouble(fault)
            self._workers.trouble(fault)
        else:
            self._fleet.trouble(fault)

    def relieve(self) -> None:
        for machine in self._fleet.machines.values():
            machine.relieve()
        self._workers.troubles.clear()

    def _delete_consumers(self) -> None:
        """As somebody might with the broker's own tools."""
        stream = self._broker.streams.get(NAMES.invocations)
        for name in tuple(stream.consumers) if stream else ():
            self._broker.delete_consumer(NAMES.invocations, name)
