"""A caller who is at it while things are restarted."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from tests.proofs.real_node.caller import PatientCaller

PAUSE_SECONDS = 0.05


class Load:
    """One pool without stock after the other; what went wrong is kept."""

    def __init__(self, address: str, name: str) -> None:
        self.failures: list[str] = []
        self.names: list[str] = []
        self._caller = PatientCaller(address)
        self._name = name
        self._stop = threading.Event()

    def run(self) -> None:
        while not self._stop.is_set():
            name = f"{self._name}-{len(self.names)}"
            pool = {"operationID": f"load-{name}", "name": name, "specName": "load.1"}
            body = {**pool, "memory": "64Mi", "replicas": 0}
            made = self._caller.post("/operator/stockpools", body)
            if made.status not in (200, 202):
                self.failures.append(f"{name}: {made.status} {made.document}")
            self.names.append(name)
            self._stop.wait(PAUSE_SECONDS)

    def stop(self) -> None:
        self._stop.set()


@contextmanager
def load(address: str, name: str) -> Iterator[Load]:
    """Its last call has ended when the block is left."""
    made = Load(address, name)
    thread = threading.Thread(target=made.run, name=f"load {name}")
    thread.start()
    try:
        yield made
    finally:
        made.stop()
        thread.join()
