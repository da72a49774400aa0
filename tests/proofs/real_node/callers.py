"""Callers of the api's Service that retry as the API asks them to."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPException

from tests.proofs.real_cluster.product import Answer, Caller, request

# The outcome is unknown, or no server answered, so the same operation may be sent again.
AGAIN = frozenset({429, 502, 503, 504})
PATIENCE_SECONDS = 60.0
PAUSE_SECONDS = 0.05


def retrying_caller(address: str) -> Caller:
    return Caller(address, send=_retried)


class BackgroundCaller:
    """A caller that creates one empty pool after the other, and records failures."""

    def __init__(self, address: str, name: str) -> None:
        self.failures: list[str] = []
        self.names: list[str] = []
        self._caller = retrying_caller(address)
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
def calling_in_background(address: str, name: str) -> Iterator[BackgroundCaller]:
    """Run a caller in a thread; its last call has ended when the block is left."""
    made = BackgroundCaller(address, name)
    thread = threading.Thread(target=made.run, name=f"load {name}")
    thread.start()
    try:
        yield made
    finally:
        made.stop()
        thread.join()


def _retried(method: str, url: str, body: object) -> Answer:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            answer = request(method, url, body)
        except (OSError, HTTPException) as error:  # refused, reset, or cut off within the answer
            answer = Answer(503, {}, str(error))
        if answer.status not in AGAIN or time.monotonic() > deadline:
            return answer
        time.sleep(min(float(answer.headers.get("retry-after", "0.2")), 1.0))
