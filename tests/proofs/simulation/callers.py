"""Callers of the two replicas of the API, which repeat a request until its answer is definite."""

import asyncio
from collections.abc import Callable, Mapping
from random import Random
from typing import Any, Final

import attrs

from tests.proofs.simulation.event_log import EventLog
from tests.proofs.simulation.in_process_http import Answer
from tests.proofs.simulation.processes import NoAnswerError, Supervisor

# The statuses that a caller may receive. After the last three it repeats the request.
EXPECTED_STATUSES: Final = frozenset({200, 201, 202, 204, 400, 404, 409, 412, 429, 503, 504})
# Longer than the deadline of any request.
CHANGE_SECONDS: Final = 120.0
REPEAT_AFTER: Final = frozenset({429, 503, 504})


@attrs.frozen(kw_only=True)
class DefiniteAnswer:
    """A definite answer, and when its request was sent."""

    answer: Answer
    sent_at: float


class Caller:
    def __init__(
        self,
        name: str,
        rng: Random,
        replicas: Mapping[str, Supervisor],
        event_log: EventLog,
        breach: Callable[[str], None],
    ) -> None:
        self.name = name
        self.rng = rng
        self._replicas = replicas
        self._event_log = event_log
        self._breach = breach

    async def call(self, method: str, path: str, body: object = None) -> DefiniteAnswer:
        """Send a request, each time to either replica, until the answer is definite."""
        while True:
            definite = await self.once(method, path, body)
            if definite is not None:
                return definite
            await asyncio.sleep(self.rng.uniform(0.2, 4.0))

    async def call_both(
        self, method: str, path: str, bodies: tuple[Any, Any], gap: float
    ) -> tuple[DefiniteAnswer, DefiniteAnswer]:
        """Send a request to both replicas; repeat what is not answered at either of them."""
        async with asyncio.TaskGroup() as tasks:
            first, second = (
                tasks.create_task(
                    self._beginning_with(replica, method, path, body, pause), name=self.name
                )
                for replica, body, pause in zip(self._replicas, bodies, (0.0, gap), strict=True)
            )
        return first.result(), second.result()

    async def _beginning_with(
        self, replica: str, method: str, path: str, body: object, pause: float
    ) -> DefiniteAnswer:
        await asyncio.sleep(pause)
        definite = await self.once(method, path, body, replica=replica)
        return definite or await self.call(method, path, body)

    async def once(
        self, method: str, path: str, body: object = None, *, replica: str = ""
    ) -> DefiniteAnswer | None:
        """Send a request once; return None if its outcome is unknown."""
        chosen = replica or self.rng.choice(tuple(self._replicas))
        sent_at, patience = asyncio.get_running_loop().time(), self.rng.choice((5.0, 30.0, 70.0))
        if method == "PUT":
            # A change without If-Match may be applied over a later one if its caller gives up.
            # Here a caller waits until the request has ended.
            patience = CHANGE_SECONDS
        what = f"{method} {path} at {chosen}"
        try:
            async with asyncio.timeout(patience):
                answer = await self._replicas[chosen].call(method, f"/api/v1{path}", body)
        except (NoAnswerError, TimeoutError) as error:
            self._event_log.write(self.name, f"{what}: {type(error).__name__}")
            return None
        self._event_log.write(self.name, f"{what}: {answer}")
        if answer.status not in EXPECTED_STATUSES:
            self._breach(f"{what} was answered with {answer}")
        return (
            None
            if answer.status in REPEAT_AFTER
            else DefiniteAnswer(answer=answer, sent_at=sent_at)
        )
