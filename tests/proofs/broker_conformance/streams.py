"""A stream: its settings, its consumers, and the republishing of its messages."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Final

from tests.proofs.broker_conformance.consumers import Consumer, Sending
from tests.proofs.broker_conformance.messages import Messages, Stored
from tests.proofs.broker_conformance.refusals import consumer_exists, consumer_missing, no_consumer
from tests.proofs.broker_conformance.subjects import matches, moved

# Settings that the real broker fills in.
DEFAULTS: Final[dict[str, Any]] = {
    "ack_wait": 30_000_000_000,
    "max_deliver": -1,
    "max_ack_pending": 1000,
    "max_waiting": 512,
    "deliver_policy": "all",
    "replay_policy": "instant",
}


class Stream:
    def __init__(
        self, config: dict[str, Any], sending: Sending, now: Callable[[], datetime]
    ) -> None:
        self.config = config
        self.messages = Messages(config, now)
        self.consumers: dict[str, Consumer] = {}
        self._sending = sending
        self._now = now
        self._made_at = now()

    @property
    def name(self) -> str:
        return str(self.config["name"])

    def takes(self, subject: str) -> bool:
        return any(matches(each, subject) for each in self.config["subjects"])

    def update(self, config: dict[str, Any]) -> None:
        self.config = config
        self.messages.config = config

    def store(self, subject: str, data: bytes, headers: Mapping[str, str]) -> Stored:
        """Store a message. The consumers are notified separately, after the answer."""
        before = self.messages.last(subject)
        stored = self.messages.store(subject, data, headers)
        told = self.config.get("republish")
        if told and not stored.is_duplicate and matches(told["src"], subject):
            destination = moved(subject, told["src"], told["dest"])
            of_stream = {
                "Nats-Stream": self.name,
                "Nats-Subject": subject,
                "Nats-Sequence": str(stored.sequence),
                "Nats-Last-Sequence": str(before.sequence if before else 0),
            }
            self._sending.send(destination, data, "", {**headers, **of_stream}, destination)
        return stored

    def work(self) -> None:
        for consumer in tuple(self.consumers.values()):
            consumer.work()

    def answer(self, consumer: Consumer, sequence: int, words: bytes) -> None:
        is_done = consumer.answer(sequence, words)
        if is_done and self.config["retention"] == "workqueue" and self.messages.get(sequence):
            self.messages.delete(sequence)

    def consumer(self, name: str) -> Consumer:
        if name not in self.consumers:
            raise no_consumer()
        return self.consumers[name]

    def make_consumer(self, config: dict[str, Any], action: str) -> Consumer:
        """Create or update as the action permits; without an action, whichever is possible."""
        whole = {**DEFAULTS, **config}
        whole.setdefault("name", whole.get("durable_name"))
        found = self.consumers.get(whole["name"])
        if found is None:
            if action == "update":
                raise consumer_missing()
            made = Consumer(self.name, whole, self.messages, self._sending)
            self.consumers[made.name] = made
            return made
        if action == "create" and found.config != whole:
            raise consumer_exists()
        found.config = whole
        found.work()
        return found

    def delete_consumer(self, name: str) -> None:
        self.consumer(name).end()
        del self.consumers[name]

    def info(self) -> dict[str, Any]:
        state = {**self.messages.state(), "consumer_count": len(self.consumers)}
        return {"config": self.config, "created": self._made_at.isoformat(), "state": state}
