"""A single delivery of a message, and the acknowledgements that the broker accepts."""

from datetime import UTC, datetime, timedelta
from typing import Final

import attrs
import msgspec

from gpuruntime.bus.connection import Connection
from gpuruntime.bus.errors import MalformedMessageError
from gpuruntime.bus.session import Message

_encoder = msgspec.json.Encoder()
_DONE: Final = b"+ACK"
_IN_PROGRESS: Final = b"+WPI"
# $JS.ACK.<stream>.<consumer>.<delivered>.<stream seq>.<consumer seq>.<time>.<pending>, and the
# longer form with a domain and an account before the stream.
_SHORT: Final = 9
_LONG: Final = 11
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@attrs.frozen(slots=True)
class Delivery:
    """`sequence` identifies the message in its stream. `count` is the broker's delivery count;
    nothing relies on it.

    `stored_at` is when the broker stored the message, by its own clock.
    """

    subject: str
    data: bytes
    sequence: int
    count: int
    stored_at: datetime
    _reply: str
    _connection: Connection

    async def ack(self) -> None:
        await self._connection.publish(self._reply, _DONE)

    async def give_back(self, *, delay_seconds: float = 0.0) -> None:
        delay = {"delay": int(delay_seconds * 1e9)} if delay_seconds > 0 else None
        body = b"-NAK " + _encoder.encode(delay) if delay else b"-NAK"
        await self._connection.publish(self._reply, body)

    async def keep(self) -> None:
        """Restart the ack wait."""
        await self._connection.publish(self._reply, _IN_PROGRESS)


def delivery_of(message: Message, connection: Connection) -> Delivery:
    tokens = message.reply.split(".")
    if tokens[:2] != ["$JS", "ACK"] or len(tokens) < _SHORT:
        raise MalformedMessageError(f"{message.subject}: not delivered by a consumer")
    first = 4 if len(tokens) < _LONG else 6
    count, sequence, _, nanoseconds = map(int, tokens[first : first + 4])
    stored_at = _EPOCH + timedelta(microseconds=nanoseconds // 1000)
    return Delivery(
        message.subject, message.data, sequence, count, stored_at, message.reply, connection
    )
