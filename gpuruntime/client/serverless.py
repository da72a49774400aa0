"""Functions over REST: their calls, results and dead letters."""

from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

from gpuruntime.client.messages import Page, Reply, path_of
from gpuruntime.client.requests import document_of, named
from gpuruntime.client.resource import PAGE_ITEMS, ResourceCalls, every
from gpuruntime.client.retries import Repeat
from gpuruntime.models.kinds.invocations import Mode
from gpuruntime.models.requests.invocations import WAIT_SECONDS, Invoke
from gpuruntime.models.views.serverless import (
    AcceptedView,
    DeadLetterView,
    FunctionView,
    InvocationSummary,
    InvocationView,
)

_SERVERLESS: Final = "serverless"
_INVOCATIONS: Final = "invocations"
_LETTERS: Final = "dead-letters"
# After its own wait, a synchronous call is given this time to be accepted and answered.
_WAY_SECONDS: Final = 30.0


class Functions:
    """Functions with their queues and workers; a call that fails raises ClientError."""

    def __init__(self, calls: ResourceCalls) -> None:
        self._calls = calls

    def list(self, *, limit: int = PAGE_ITEMS) -> AsyncIterator[FunctionView]:
        async def fetch(cursor: str) -> Page[FunctionView]:
            query = {"limit": limit, "cursor": cursor}
            return await self._calls.page(path_of(_SERVERLESS, "functions"), FunctionView, query)

        return every(fetch)

    async def get(self, function: str) -> Reply[FunctionView]:
        return await self._calls.read(path_of(_SERVERLESS, "functions", function), FunctionView)


class Invocations:
    """Invocations by function and id, which is unique within its function.

    A call that fails raises ClientError.
    """

    def __init__(self, calls: ResourceCalls) -> None:
        self._calls = calls

    async def submit(self, invoke: Invoke | Mapping[str, Any]) -> Reply[AcceptedView]:
        """Queue an invocation and return, without waiting for its result."""
        document = named({**document_of(invoke), "mode": Mode.ASYNC}, "invocationID")
        path = path_of(_SERVERLESS, _INVOCATIONS)
        return await self._calls.post(path, AcceptedView, document, repeat=Repeat.ALWAYS)

    async def call(self, invoke: Invoke | Mapping[str, Any]) -> Reply[InvocationView]:
        """Return the invocation once it has ended, or as it is when `waitSeconds` are over.

        Then its state is queued or running, and `waitingFor` says why no worker has it.
        """
        document = named({**document_of(invoke), "mode": Mode.SYNC}, "invocationID")
        asked = document.get("waitSeconds")
        wait = asked if isinstance(asked, int) else WAIT_SECONDS
        return await self._calls.post(
            path_of(_SERVERLESS, _INVOCATIONS),
            InvocationView,
            document,
            repeat=Repeat.ALWAYS,
            timeout_seconds=wait + _WAY_SECONDS,
        )

    def list(
        self, function: str, *, state: str = "", limit: int = PAGE_ITEMS
    ) -> AsyncIterator[InvocationSummary]:
        """Yield the invocations that the broker still keeps, the oldest change first."""

        async def fetch(cursor: str) -> Page[InvocationSummary]:
            query = {
                "serverlessRequestID": function,
                "state": state,
                "limit": limit,
                "cursor": cursor,
            }
            path = path_of(_SERVERLESS, _INVOCATIONS)
            return await self._calls.page(path, InvocationSummary, query)

        return every(fetch)

    async def get(self, function: str, invocation: str) -> Reply[InvocationView]:
        path, query = self._place(function, invocation)
        return await self._calls.read(path, InvocationView, query)

    async def cancel(self, function: str, invocation: str) -> None:
        path, query = self._place(function, invocation)
        await self._calls.delete(path, query)

    def _place(self, function: str, invocation: str) -> tuple[str, Mapping[str, object]]:
        path = path_of(_SERVERLESS, _INVOCATIONS, invocation)
        return path, {"serverlessRequestID": function}


class DeadLetters:
    """Invocations that used up their attempts; a call that fails raises ClientError."""

    def __init__(self, calls: ResourceCalls) -> None:
        self._calls = calls

    def list(
        self, function: str = "", *, limit: int = PAGE_ITEMS
    ) -> AsyncIterator[DeadLetterView]:
        """Yield the dead letters of one function, or of all, the oldest first."""

        async def fetch(cursor: str) -> Page[DeadLetterView]:
            query = {"serverlessRequestID": function, "limit": limit, "cursor": cursor}
            return await self._calls.page(path_of(_SERVERLESS, _LETTERS), DeadLetterView, query)

        return every(fetch)

    async def redrive(self, letter: str) -> Reply[AcceptedView]:
        """Let the invocation run again; repeated requests redrive a letter once."""
        path = path_of(_SERVERLESS, _LETTERS, letter, "redrive")
        return await self._calls.post(path, AcceptedView, repeat=Repeat.ALWAYS)

    async def discard(self, letter: str) -> None:
        await self._calls.delete(path_of(_SERVERLESS, _LETTERS, letter))
