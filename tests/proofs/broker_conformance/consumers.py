"""A pull consumer: its open requests, unacknowledged messages and redeliveries."""

import asyncio
import json
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import attrs

from tests.proofs.broker_conformance.messages import Message, Messages

_SECOND: Final = 1_000_000_000
_ACK_WAIT: Final = 30 * _SECOND
_MAX_WAITING: Final = 512


@attrs.define(slots=True, eq=False)
class Pull:
    """A request for its remaining number of messages; moments are loop time."""

    reply: str
    left: int
    ends_at: float
    beat_seconds: float
    beats_at: float
    timer: asyncio.TimerHandle | None = None


@attrs.define(slots=True)
class _InHand:
    """An unacknowledged message; `due_at` is None while it waits for its redelivery."""

    number: int
    due_at: float | None


class Sending:
    """The functions of the server that a consumer needs."""

    def __init__(
        self,
        send: Callable[[str, bytes, str, Mapping[str, str], str], None],
        has_interest: Callable[[str], bool],
    ) -> None:
        """`send` takes inbox, data, reply subject, headers, and the subject to show."""
        self.send = send
        self.has_interest = has_interest

    def status(self, inbox: str, code: int, text: str, **headers: str) -> None:
        told = {name.replace("_", "-"): value for name, value in headers.items()}
        self.send(inbox, b"", "", {"Status": str(code), "Description": text, **told}, inbox)


class Consumer:
    def __init__(
        self, stream: str, config: dict[str, Any], messages: Messages, sending: Sending
    ) -> None:
        self.config = config
        self._stream = stream
        self._messages = messages
        self._sending = sending
        self._next = 1
        self._number = 0
        self._in_hand: dict[int, _InHand] = {}
        self._counts: dict[int, int] = {}
        self._again: deque[int] = deque()
        self._waiting: deque[Pull] = deque()
        self._timer: asyncio.TimerHandle | None = None

    @property
    def name(self) -> str:
        return str(self.config["name"])

    def info(self) -> dict[str, Any]:
        self._drop_deserted()
        return {
            "stream_name": self._stream,
            "name": self.name,
            "config": self.config,
            "delivered": {"consumer_seq": self._number, "stream_seq": self._next - 1},
            "num_ack_pending": len(self._in_hand),
            "num_redelivered": len(self._counts),
            "num_waiting": len(self._waiting),
            "num_pending": sum(1 for _ in self._fresh()),
        }

    def pull(self, reply: str, asked: Mapping[str, Any]) -> None:
        self._drop_deserted()
        if len(self._waiting) >= self.config.get("max_waiting", _MAX_WAITING):
            self._sending.status(reply, 409, "Exceeded MaxWaiting")
            return
        now = _now()
        beat = asked.get("idle_heartbeat", 0) / _SECOND
        ends_at = now + asked.get("expires", 0) / _SECOND
        pull = Pull(reply, asked.get("batch", 1), ends_at, beat, now + beat)
        self._waiting.append(pull)
        self._arm(pull)
        self.work()

    def answer(self, sequence: int, words: bytes) -> bool:
        """Handle an acknowledgement; return whether the message is done."""
        if sequence >= self._next:
            return False
        kind, _, rest = words.partition(b" ")
        held = self._in_hand.get(sequence)
        if kind in (b"", b"+ACK"):
            self._forget(sequence)
            self.work()
            return True
        if held is None:
            return False
        if kind == b"-NAK":
            self._take_back(sequence, held, _delay_of(rest))
        elif kind == b"+WPI" and held.due_at is not None:
            held.due_at = _now() + self._ack_seconds
            self._watch()
        return False

    def work(self) -> None:
        """Deliver available messages to the open requests in turn."""
        while pull := self._first_pull():
            message = self._next_message()
            if message is None:
                return
            self._deliver(message, pull)

    def end(self) -> None:
        """Report to all open requests that the consumer was deleted."""
        for pull in self._waiting:
            self._disarm(pull)
            self._sending.status(pull.reply, 409, "Consumer Deleted")
        self._waiting.clear()
        if self._timer:
            self._timer.cancel()

    @property
    def _ack_seconds(self) -> float:
        return float(self.config.get("ack_wait", _ACK_WAIT)) / _SECOND

    def _fresh(self) -> Iterator[Message]:
        return self._messages.matching(self._next, self.config.get("filter_subject", ">"))

    def _next_message(self) -> Message | None:
        while self._again:
            sequence = self._again.popleft()
            message = self._messages.get(sequence)
            if sequence in self._in_hand and message is not None:
                return message
            self._forget(sequence)
        most = self.config.get("max_ack_pending", 1000)
        if 0 < most <= len(self._in_hand):
            return None
        return next(self._fresh(), None)

    def _deliver(self, message: Message, pull: Pull) -> None:
        sequence = message.sequence
        self._next = max(self._next, sequence + 1)
        self._number += 1
        self._counts[sequence] = self._counts.get(sequence, 0) + 1
        self._in_hand[sequence] = _InHand(self._number, _now() + self._ack_seconds)
        self._watch()
        stamp = int(message.stored_at.timestamp() * 1_000_000) * 1000
        left = sum(1 for _ in self._fresh())
        reply = (
            f"$JS.ACK.{self._stream}.{self.name}.{self._counts[sequence]}.{sequence}."
            f"{self._number}.{stamp}.{left}"
        )
        pull.left -= 1
        pull.beats_at = _now() + pull.beat_seconds
        if pull.left:
            self._waiting.rotate(-1)
        else:
            self._waiting.remove(pull)
            self._disarm(pull)
        self._sending.send(pull.reply, message.data, reply, message.headers, message.subject)

    def _take_back(self, sequence: int, held: _InHand, delay_seconds: float) -> None:
        if delay_seconds:
            held.due_at = _now() + delay_seconds
            self._watch()
        elif held.due_at is not None:
            held.due_at = None
            self._again.append(sequence)
            self.work()

    def _forget(self, sequence: int) -> None:
        self._in_hand.pop(sequence, None)
        self._counts.pop(sequence, None)

    def _watch(self) -> None:
        """Schedule the redelivery of the next message whose ack wait ends."""
        if self._timer:
            self._timer.cancel()
        due = [each.due_at for each in self._in_hand.values() if each.due_at is not None]
        loop = asyncio.get_running_loop()
        self._timer = loop.call_at(min(due), self._on_due) if due else None

    def _on_due(self) -> None:
        now = _now()
        for sequence, held in self._in_hand.items():
            if held.due_at is not None and held.due_at <= now:
                held.due_at = None
                self._again.append(sequence)
        self._watch()
        self.work()

    def _first_pull(self) -> Pull | None:
        self._drop_deserted()
        return self._waiting[0] if self._waiting else None

    def _drop_deserted(self) -> None:
        for pull in tuple(self._waiting):
            if not self._sending.has_interest(pull.reply):
                self._waiting.remove(pull)
                self._disarm(pull)

    def _arm(self, pull: Pull) -> None:
        loop = asyncio.get_running_loop()
        at = min(pull.ends_at, pull.beats_at) if pull.beat_seconds else pull.ends_at
        pull.timer = loop.call_at(at, self._on_time, pull)

    def _disarm(self, pull: Pull) -> None:
        if pull.timer:
            pull.timer.cancel()

    def _on_time(self, pull: Pull) -> None:
        now = _now()
        if now >= pull.ends_at:
            self._waiting.remove(pull)
            left = {"Nats_Pending_Messages": str(pull.left), "Nats_Pending_Bytes": "0"}
            self._sending.status(pull.reply, 408, "Request Timeout", **left)
            return
        if now >= pull.beats_at:
            pull.beats_at = now + pull.beat_seconds
            self._sending.status(pull.reply, 100, "Idle Heartbeat")
        self._arm(pull)


def _delay_of(words: bytes) -> float:
    """Return the delay in seconds that a NAK gives, in nanoseconds, or 0."""
    return float(json.loads(words)["delay"]) / _SECOND if words else 0.0


def _now() -> float:
    return asyncio.get_running_loop().time()
