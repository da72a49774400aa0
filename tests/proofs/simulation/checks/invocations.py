"""Checks of the promises about invocations, made where the broker stores their records."""

import json
from collections.abc import Callable
from typing import Any, Final, TypeAlias

from gpuruntime.bus.messages import Invocation, Record, read
from gpuruntime.bus.names import Names
from gpuruntime.models.kinds.invocations import State
from tests.proofs.broker_conformance.server import Envelope, Server, Subscription
from tests.proofs.simulation.event_log import EventLog

NAMES: Final = Names("runtime")
# The names of the function and of the invocation.
Called: TypeAlias = tuple[str, str]


class Invocations:
    """Checks each record in the step in which the broker stores it."""

    def __init__(self, server: Server, event_log: EventLog, breach: Callable[[str], None]) -> None:
        self._server = server
        self._event_log = event_log
        self._breach = breach
        self._latest: dict[Called, Record] = {}
        self._accepted: set[Called] = set()
        self._starts: dict[tuple[Called, int], str] = {}
        server.subscribe(Subscription(f"{NAMES.prefix}.changed.>", self._on_record))

    def accept(self, function: str, name: str) -> None:
        """Check that a record exists: a caller was answered that the invocation is accepted."""
        called = (function, name)
        self._accepted.add(called)
        if called not in self._latest:
            self._breach(f"invocation {name}: accepted without a record")

    def start(self, invocation: Invocation, attempt: int, worker: str, *, declarer: str) -> None:
        """Note a call of the function by a worker, which must serve the same declaring unit."""
        function, name = invocation.serverlessRequestID, invocation.invocationID
        if invocation.declarer != declarer:
            self._breach(
                f"invocation {name}: run by {worker}, which serves another unit's function"
            )
        started = ((function, name), attempt)
        first = self._starts.setdefault(started, worker)
        self._event_log.write(worker, f"runs {name}, attempt {attempt}")
        if first is not worker:
            self._breach(f"invocation {name}: attempt {attempt} runs at {first} and at {worker}")

    def check_end(self, functions: set[str]) -> None:
        """Check the end of a run: all invocations have ended, and only their records are left."""
        for called in sorted(self._latest):
            record = self._latest[called]
            if not record.state.is_terminal:
                self._breach(f"invocation {called}: is {record.state.value} at the end")
        stream = self._server.streams[NAMES.invocations]
        if len(stream.messages):
            self._breach(f"{len(stream.messages)} messages wait at the end")
        if set(stream.consumers) != functions:
            self._breach(f"consumers {sorted(stream.consumers)}, functions {sorted(functions)}")

    def _on_record(self, envelope: Envelope) -> None:
        record = read(envelope.data, Record)
        called = (record.serverlessRequestID, record.invocationID)
        before = self._latest.get(called)
        self._latest[called] = record
        name, summary = record.invocationID, f"{record.state.value} {record.attempt}"
        self._event_log.write("broker", f"{name} {summary} {record.workerName}")
        if before is None:
            return
        if before.state.is_terminal:
            self._breach(f"invocation {name}: was {before.state.value}, and then {summary}")
        if record.attempt < before.attempt:
            self._breach(f"invocation {name}: attempt {before.attempt} is followed by {summary}")
        if record.state is State.SUCCEEDED:
            self._check_answer(called, record)

    def _check_answer(self, called: Called, record: Record) -> None:
        body: Any = json.loads(bytes(record.body))
        if body["attempt"] != record.attempt:
            self._breach(f"invocation {called}: has the answer of attempt {body['attempt']}")
        if (called, record.attempt) not in self._starts:
            self._breach(f"invocation {called}: has an answer that no worker gave")
