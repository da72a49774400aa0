"""The consumers of functions' invocations: made, made again, and freed of an older bound."""

from collections.abc import Iterator

import attrs

from gpuruntime.bus.errors import MissingError
from gpuruntime.bus.jetstream import JetStream
from gpuruntime.bus.names import Names, is_function_name
from gpuruntime.bus.provisioning import change_consumer, declare_consumer
from gpuruntime.bus.streams import (
    consumer_declaration,
    former_consumer_declaration,
    is_former,
    unbounded,
)
from gpuruntime.models.encoding.json import JsonObject


@attrs.frozen(kw_only=True, slots=True)
class Survey:
    """`gone` stood and do not any more; `others` stand, and nobody here has asked for them.

    One whose name can be no function's is somebody else's, and told of nowhere.
    """

    gone: tuple[str, ...]
    others: tuple[str, ...]


class Consumers:
    """Remembers which ones stand, until it hears or sees that one is gone. Raises BusError."""

    def __init__(self, jetstream: JetStream, names: Names, *, ack_wait_seconds: float) -> None:
        self._jetstream = jetstream
        self._names = names
        self._ack_wait_seconds = ack_wait_seconds
        self._standing: set[str] = set()

    async def ensure(self, function: str, *, most_in_hand: int) -> None:
        """Costs nothing for one that stands. `most_in_hand` tells an older version's bound."""
        if function in self._standing:
            return
        names, stream, wait = self._names, self._names.invocations, self._ack_wait_seconds
        declaration = consumer_declaration(names, function, ack_wait_seconds=wait)
        found = await declare_consumer(self._jetstream, stream, declaration)
        former = former_consumer_declaration(
            names, function, most_in_hand=most_in_hand, ack_wait_seconds=wait
        )
        if is_former(former, found):
            await change_consumer(self._jetstream, stream, found, **unbounded(found))
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
        """Those that are gone are forgotten."""
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
