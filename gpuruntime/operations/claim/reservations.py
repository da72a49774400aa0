"""Which stock units this process is writing to, so that its callers never try the same one."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager


class Reservations:
    """By specName and uid; nothing here outlives the write that it covers."""

    def __init__(self) -> None:
        self._held: dict[str, dict[str, asyncio.Future[None]]] = {}

    def has(self, spec_name: str, uid: str) -> bool:
        return uid in self._held.get(spec_name, ())

    @contextmanager
    def hold(self, spec_name: str, uid: str) -> Iterator[None]:
        """Whoever picked the unit in the same step, without an await between, is its only one."""
        of_spec = self._held.setdefault(spec_name, {})
        done = of_spec[uid] = asyncio.get_running_loop().create_future()
        try:
            yield
        finally:
            done.set_result(None)
            del of_spec[uid]
            if not of_spec:
                del self._held[spec_name]

    async def settled(self, spec_name: str) -> None:
        """Returns once the writes that are in flight now have ended, one way or the other."""
        if in_flight := list(self._held.get(spec_name, {}).values()):
            await asyncio.wait(in_flight)
