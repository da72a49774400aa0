"""A caller of the api's Service who retries as the API asks its callers to."""

import time
from collections.abc import Callable
from http.client import HTTPException
from typing import Any

from tests.eventually import eventually_blocking
from tests.proofs.real_cluster.product import WAIT_SECONDS, Answer, Caller

# The outcome is unknown, or nobody was there: the same operation may be sent again.
AGAIN = frozenset({429, 502, 503, 504})
PATIENCE_SECONDS = 60.0


class PatientCaller:
    def __init__(self, address: str) -> None:
        self._caller = Caller(address)

    def get(self, path: str) -> Answer:
        return _patiently(lambda: self._caller.get(path))

    def post(self, path: str, body: object) -> Answer:
        return _patiently(lambda: self._caller.post(path, body))

    def put(self, path: str, body: object) -> Answer:
        return _patiently(lambda: self._caller.put(path, body))

    def delete(self, path: str) -> Answer:
        return _patiently(lambda: self._caller.delete(path))

    def until(
        self, path: str, holds: Callable[[Any], bool], *, seconds: float = WAIT_SECONDS
    ) -> Any:
        """The data of the first answer for which it holds."""
        answer = eventually_blocking(
            lambda: self.get(path),
            lambda answer: answer.status == 200 and holds(answer.data),
            within_seconds=seconds,
        )
        return answer.data


def _patiently(send: Callable[[], Answer]) -> Answer:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            answer = send()
        except (OSError, HTTPException) as error:  # refused, reset, or cut off within the answer
            answer = Answer(503, {}, str(error))
        if answer.status not in AGAIN or time.monotonic() > deadline:
            return answer
        time.sleep(min(float(answer.headers.get("retry-after", "0.2")), 1.0))
