"""A broker within the test's process: subscriptions of its clients, and JetStream.

It handles each call immediately. Delays use loop time, so time may be virtual. It uses no
randomness, so a run can be repeated exactly.
"""

import json
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Final

import attrs

from tests.proofs.broker_conformance.api import PREFIX, Api, no_responders
from tests.proofs.broker_conformance.consumers import Sending
from tests.proofs.broker_conformance.refusals import RefusalError
from tests.proofs.broker_conformance.streams import Stream
from tests.proofs.broker_conformance.subjects import has_wildcard, matches

ACK: Final = "$JS.ACK."
NOTHING: Final[Mapping[str, str]] = {}


@attrs.frozen(slots=True)
class Envelope:
    subject: str
    data: bytes
    reply: str = ""
    headers: Mapping[str, str] = NOTHING


@attrs.frozen(slots=True, eq=False)
class Subscription:
    pattern: str
    receive: Callable[[Envelope], None]


class Server:
    def __init__(self, *, now: Callable[[], datetime]) -> None:
        self._exact: dict[str, dict[Subscription, None]] = {}
        self._wild: dict[Subscription, None] = {}
        sending = Sending(self._send, self.has_interest)
        self._api = Api(sending, now)

    @property
    def streams(self) -> dict[str, Stream]:
        return self._api.streams

    def subscribe(self, subscription: Subscription) -> None:
        pattern = subscription.pattern
        held = self._wild if has_wildcard(pattern) else self._exact.setdefault(pattern, {})
        held[subscription] = None

    def unsubscribe(self, subscription: Subscription) -> None:
        """Remove a subscription; it may already be gone."""
        pattern = subscription.pattern
        if has_wildcard(pattern):
            self._wild.pop(subscription, None)
            return
        held = self._exact.get(pattern, {})
        held.pop(subscription, None)
        if not held:
            self._exact.pop(pattern, None)

    def has_interest(self, subject: str) -> bool:
        return bool(self._hearers(subject))

    def publish(self, envelope: Envelope) -> None:
        subject, reply = envelope.subject, envelope.reply
        if subject.startswith(PREFIX):
            answer = self._api.ask(subject, envelope.data, reply)
            if answer is not None and reply:
                self._send(reply, answer.data, "", answer.headers, reply)
            return
        if subject.startswith(ACK):
            self._on_ack(subject, envelope.data)
            return
        hearers = self._hearers(subject)
        for each in hearers:
            each.receive(envelope)
        stream = self._api.stream_of(subject)
        if stream is not None:
            self._store(stream, envelope)
        elif reply and not hearers:
            nobody = no_responders()
            self._send(reply, nobody.data, "", nobody.headers, reply)

    def delete_consumer(self, stream: str, name: str) -> None:
        """Delete the consumer, as an operator does with the broker's own tools."""
        self.publish(Envelope(f"{PREFIX}CONSUMER.DELETE.{stream}.{name}", b""))

    def _store(self, stream: Stream, envelope: Envelope) -> None:
        try:
            stored = stream.store(envelope.subject, envelope.data, envelope.headers)
        except RefusalError as refusal:
            body = {**refusal.body, "stream": stream.name, "seq": 0}
        else:
            body = {"stream": stream.name, "seq": stored.sequence}
            if stored.is_duplicate:
                body["duplicate"] = True
        if envelope.reply:
            self._send(envelope.reply, json.dumps(body).encode(), "", NOTHING, envelope.reply)
        stream.work()

    def _on_ack(self, subject: str, words: bytes) -> None:
        tokens = subject.split(".")
        stream = self._api.streams.get(tokens[2])
        consumer = stream.consumers.get(tokens[3]) if stream else None
        if stream and consumer:
            stream.answer(consumer, int(tokens[5]), words)

    def _send(
        self, inbox: str, data: bytes, reply: str, headers: Mapping[str, str], shown: str
    ) -> None:
        """Send to the listeners of the inbox; a delivery shows the subject of its message."""
        envelope = Envelope(shown, data, reply, headers)
        for each in self._hearers(inbox):
            each.receive(envelope)

    def _hearers(self, subject: str) -> list[Subscription]:
        exact = self._exact.get(subject, NOTHING)
        return [*exact, *(each for each in self._wild if matches(each.pattern, subject))]
