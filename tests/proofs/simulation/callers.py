"""Callers of the two replicas of the API: they send again until an answer is definite."""

import asyncio
from collections.abc import Callable, Mapping
from random import Random
from typing import Any, Final

import attrs

from tests.proofs.simulation.event_log import EventLog
from tests.proofs.simulation.in_process_http import Answer
from tests.proofs.simulation.processes import NoAnswerError, Supervisor

# What a caller may be told at all; of these the last three say: send it again.
KNOWN: Final = frozenset({200, 201, 202, 204, 400, 404, 409, 412, 429, 503, 504})
# Longer than a request may live.
CHANGE_SECONDS: Final = 120.0
AGAIN: Final = frozenset({429, 503, 504})


@attrs.frozen(kw_only=True)
class DefiniteAnswer:
    """A definite answer, and when the request that it answers was sent."""

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
        """Sent again, to either replica, until it is answered for good."""
        while True:
            told = await self.once(method, path, body)
            if told is not None:
                return told
            await asyncio.sleep(self.rng.uniform(0.2, 4.0))

    async def call_both(
        self, method: str, path: str, bodies: tuple[Any, Any], gap: float
    ) -> tuple[DefiniteAnswer, DefiniteAnswer]:
        """To both replicas at once; what stays without an answer is sent again to either."""
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
        told = await self.once(method, path, body, replica=replica)
        return told or await self.call(method, path, body)

    async def once(
        self, method: str, path: str, body: object = None, *, replica: str = ""
    ) -> DefiniteAnswer | None:
        """None: it is not known what became of it."""
        chosen = replica or self.rng.choice(tuple(self._replicas))
        sent_at, patience = asyncio.get_running_loop().time(), self.rng.choice((5.0, 30.0, 70.0))
        if method == "PUT":
            # A change without If-Match that its caller gave up may be applied over a later one:
            # whoever sends one here waits for its end.
            patience = CHANGE_SECONDS
        what = f"{method} {path} at {chosen}"
        try:
            async with asyncio.timeout(patience):
                answer = await self._replicas[chosen].call(method, f"/api/v1{path}", body)
        except (NoAnswerError, TimeoutError) as error:
            self._event_log.write(self.name, f"{what}: {type(error).__name__}")
            return None
        self._event_log.write(self.name, f"{what}: {answer}")
        if answer.status not in KNOWN:
            self._breach(f"{what} was answered with {answer}")
        return None if answer.status in AGAIN else DefiniteAnswer(answer=answer, sent_at=sent_at)
