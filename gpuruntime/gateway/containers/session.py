"""A session between a caller and a unit: its directions, and what ends them all."""

import asyncio
from collections.abc import Coroutine
from typing import Any, Final, TypeAlias, assert_never

import attrs

from gpuruntime.concurrency.clock import loop_time
from gpuruntime.gateway.connections import Connection, End
from gpuruntime.gateway.containers.caller_socket import (
    CallerGoneError,
    CallerSocket,
    Close,
    CloseCode,
)
from gpuruntime.gateway.containers.exec_messages import MessageError
from gpuruntime.gateway.containers.port_dialer import DialError
from gpuruntime.gateway.errors import GatewayError
from gpuruntime.kube.errors import KubeError

# A direction of a session; it returns or raises how the session ends.
Direction: TypeAlias = Coroutine[Any, Any, Close]
# The last output may still be on its way to a slow caller.
DONE: Final = Close(CloseCode.DONE, patience_seconds=60.0)
_GONE: Final = Close(CloseCode.DONE, "the caller has left", patience_seconds=0.0)


@attrs.frozen(kw_only=True, slots=True)
class SessionTimes:
    """A session ends after `idle_seconds` without a byte in either direction.

    A PING keeps proxies from ending an idle one; without an answer, the next one ends it.
    """

    idle_seconds: float
    ping_seconds: float = 30.0


class Session:
    def __init__(self, caller: CallerSocket, connection: Connection, times: SessionTimes) -> None:
        self.caller: Final = caller
        self._connection = connection
        self._times = times
        self._moved_at = loop_time()

    async def receive(self) -> bytes | str:
        message = await self.caller.receive()
        self._moved_at = loop_time()
        return message

    async def send(self, message: bytes) -> None:
        await self.caller.send(message)
        self._moved_at = loop_time()

    def touch(self) -> None:
        """Record what counts as activity of the unit."""
        self._connection.touch()

    async def run(self, *directions: Direction) -> None:
        """Run until one direction ends the session, or it has to end; then close it."""
        ending: asyncio.Future[Close] = asyncio.get_running_loop().create_future()

        async def run_one(direction: Direction) -> None:
            close = await _outcome(direction)
            if not ending.done():
                ending.set_result(close)

        watches = (self.caller.probe(self._times.ping_seconds), self._idle(), self._revoked())
        async with asyncio.TaskGroup() as tasks:
            running = [tasks.create_task(run_one(each)) for each in (*directions, *watches)]
            try:
                close = await ending
            finally:
                for task in running:
                    task.cancel()
        await self.caller.close(close)

    async def _idle(self) -> Close:
        while (left := self._moved_at + self._times.idle_seconds - loop_time()) > 0:  # noqa: ASYNC110
            await asyncio.sleep(left)
        return Close(CloseCode.IDLE, f"no byte has passed for {self._times.idle_seconds:g} s")

    async def _revoked(self) -> Close:
        await asyncio.wait([self._connection.ended])
        return close_of(self._connection.ended.result())


async def _outcome(direction: Direction) -> Close:
    try:
        return await direction
    except CallerGoneError:
        return _GONE
    except MessageError as error:
        return Close(CloseCode.BAD_MESSAGE, str(error))
    except (DialError, GatewayError, KubeError) as error:
        return Close(CloseCode.UPSTREAM, str(error))


def close_of(end: End) -> Close:
    """Return how a session ends that the gateway may not keep."""
    match end:
        case End.STOPPING:
            return Close(CloseCode.STOPPING, "this replica is stopping: connect again")
        case End.UNKNOWN:
            return Close(CloseCode.UNKNOWN, "the cluster is silent: connect again later")
        case End.EXPIRED | End.UNIT_GONE | End.REVOKED | End.SUSPENDED:
            return Close(CloseCode.NOT_ADMITTED, f"the session has ended: {end}")
        case _:
            assert_never(end)
