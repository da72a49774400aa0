"""The consumers of functions: created, and recreated if they are lost."""

from collections.abc import Iterator

import attrs

from gpuruntime.bus.errors import MissingError
from gpuruntime.bus.jetstream import JetStream
from gpuruntime.bus.names import Names, is_function_name
from gpuruntime.bus.provisioning import declare_consumer
from gpuruntime.bus.streams import consumer_declaration
from gpuruntime.models.encoding.json import JsonObject


@attrs.frozen(kw_only=True, slots=True)
class Survey:
    """`gone` consumers existed and no longer do; `others` exist without being ensured here.

    Consumers whose name is not a function name belong to other programs and are left out.
    """

    gone: tuple[str, ...]
    others: tuple[str, ...]


class Consumers:
    """Remembers which consumers exist until one is reported or found missing. Raises BusError."""

    def __init__(self, jetstream: JetStream, names: Names, *, ack_wait_seconds: float) -> None:
        self._jetstream = jetstream
        self._names = names
        self._ack_wait_seconds = ack_wait_seconds
        self._standing: set[str] = set()

    async def ensure(self, function: str) -> None:
        """Create the consumer if necessary; return at once if it is known to exist."""
        if function in self._standing:
            return
        names, wait = self._names, self._ack_wait_seconds
        declaration = consumer_declaration(names, function, ack_wait_seconds=wait)
        await declare_consumer(self._jetstream, names.invocations, declaration)
        self._standing.add(function)

    async def remove(self, function: str) -> None:
        self.forget(function)
        try:
            await self._jetstream.call(f"CONSUMER.DELETE.{self._names.invocations}.{function}")
        except MissingError:
            return

    def forget(self, function: str) -> None:
        self._standing.discard(function)

    async def survey(self) -> Survey:
        """Compare the existing consumers with the known ones, and forget the missing ones."""
        believed = set(self._standing)
        there = await self._there()
        gone = believed - there
        for function in gone:
            self.forget(function)
        others = filter(is_function_name, there - believed)
        return Survey(gone=tuple(sorted(gone)), others=tuple(sorted(others)))

    async def _there(self) -> set[str]:
        there: set[str] = set()
        while True:
            page = await self._jetstream.call(
                f"CONSUMER.NAMES.{self._names.invocations}", {"offset": len(there)}
            )
            names = set(_names_in(page))
            there |= names
            total = page.get("total")
            if not names or not isinstance(total, int) or len(there) >= total:
                return there


def _names_in(page: JsonObject) -> Iterator[str]:
    listed = page.get("consumers")
    for name in listed if isinstance(listed, list) else ():
        if isinstance(name, str):
            yield name
