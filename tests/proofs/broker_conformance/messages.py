"""The messages of one stream in memory: limits, duplicates, expected sequences, TTLs."""

import heapq
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any, Final

import attrs

from tests.proofs.broker_conformance.refusals import full, not_deleted, wrong_last_sequence
from tests.proofs.broker_conformance.subjects import has_wildcard, matches

MESSAGE_ID: Final = "Nats-Msg-Id"
TTL: Final = "Nats-TTL"
EXPECTED: Final = "Nats-Expected-Last-Subject-Sequence"
# The real broker's default duplicate window.
DUPLICATE_SECONDS: Final = 120.0
_SECOND: Final = 1_000_000_000


@attrs.frozen(slots=True)
class Message:
    sequence: int
    subject: str
    data: bytes
    headers: Mapping[str, str]
    stored_at: datetime


@attrs.frozen(slots=True)
class Stored:
    sequence: int
    is_duplicate: bool = False


class Messages:
    """Messages of a stream; each operation removes expired messages first."""

    def __init__(self, config: Mapping[str, Any], now: Callable[[], datetime]) -> None:
        self.config = config
        self.last_sequence = 0
        self._now = now
        self._all: dict[int, Message] = {}
        self._by_subject: defaultdict[str, dict[int, Message]] = defaultdict(dict)
        self._ids: dict[str, tuple[int, datetime]] = {}
        self._ends: list[tuple[datetime, int]] = []

    def __len__(self) -> int:
        self._expire()
        return len(self._all)

    def store(self, subject: str, data: bytes, headers: Mapping[str, str]) -> Stored:
        """Store the message, or raise RefusalError and store nothing."""
        self._expire()
        name = headers.get(MESSAGE_ID, "")
        known = self._known(name)
        if known is not None:
            return Stored(known, is_duplicate=True)
        self._demand_sequence(subject, headers.get(EXPECTED, ""))
        self._make_room(subject)
        self.last_sequence += 1
        message = Message(self.last_sequence, subject, data, headers, self._now())
        self._all[message.sequence] = self._by_subject[subject][message.sequence] = message
        if name:
            self._ids[name] = (message.sequence, message.stored_at)
        end = self._end_of(message)
        if end is not None:
            heapq.heappush(self._ends, (end, message.sequence))
        return Stored(message.sequence)

    def get(self, sequence: int) -> Message | None:
        self._expire()
        return self._all.get(sequence)

    def last(self, subject: str) -> Message | None:
        self._expire()
        held = self._by_subject.get(subject)
        return next(reversed(held.values())) if held else None

    def following(self, sequence: int, pattern: str) -> Message | None:
        """Return the first message from this sequence on."""
        return next(self.matching(sequence, pattern), None)

    def matching(self, sequence: int, pattern: str) -> Iterator[Message]:
        self._expire()
        is_exact = not has_wildcard(pattern)
        held = self._by_subject.get(pattern, {}) if is_exact else self._all
        for each in tuple(held.values()):
            if each.sequence >= sequence and (is_exact or matches(pattern, each.subject)):
                yield each

    def counts(self, pattern: str) -> dict[str, int]:
        """Return the number of messages by subject."""
        self._expire()
        return {
            subject: len(held)
            for subject, held in self._by_subject.items()
            if matches(pattern, subject)
        }

    def delete(self, sequence: int) -> None:
        self._expire()
        if sequence not in self._all:
            raise not_deleted(sequence)
        self._drop(sequence)

    def state(self) -> dict[str, Any]:
        self._expire()
        return {
            "messages": len(self._all),
            "bytes": sum(len(each.data) for each in self._all.values()),
            "first_seq": next(iter(self._all), self.last_sequence + 1),
            "last_seq": self.last_sequence,
            "num_subjects": len(self._by_subject),
        }

    def _known(self, name: str) -> int | None:
        sequence, stored_at = self._ids.get(name, (0, self._now()))
        window = self.config.get("duplicate_window", 0) / _SECOND or DUPLICATE_SECONDS
        if not sequence or self._now() - stored_at >= timedelta(seconds=window):
            return None
        return sequence

    def _demand_sequence(self, subject: str, expected: str) -> None:
        if not expected:
            return
        last = self.last(subject)
        sequence = last.sequence if last else 0
        if sequence != int(expected):
            raise wrong_last_sequence(sequence)

    def _make_room(self, subject: str) -> None:
        """Drop the oldest messages, or refuse the new one if nothing may be dropped."""
        config = self.config
        refuses = config.get("discard") == "new"
        of_subject, most = (
            self._by_subject.get(subject, {}),
            config.get("max_msgs_per_subject", -1),
        )
        if 0 < most <= len(of_subject):
            if refuses and config.get("discard_new_per_subject"):
                raise full("messages per subject")
            self._drop(next(iter(of_subject)))
        if 0 < config.get("max_msgs", -1) <= len(self._all):
            if refuses:
                raise full("messages")
            self._drop(next(iter(self._all)))

    def _end_of(self, message: Message) -> datetime | None:
        ages = [self.config.get("max_age", 0) / _SECOND]
        if self.config.get("allow_msg_ttl"):
            ages.append(float(message.headers.get(TTL, "0s").removesuffix("s")))
        shortest = min(filter(None, ages), default=None)
        return None if shortest is None else message.stored_at + timedelta(seconds=shortest)

    def _expire(self) -> None:
        while self._ends and self._ends[0][0] <= self._now():
            _, sequence = heapq.heappop(self._ends)
            if sequence in self._all:
                self._drop(sequence)

    def _drop(self, sequence: int) -> None:
        message = self._all.pop(sequence)
        held = self._by_subject[message.subject]
        del held[sequence]
        if not held:
            del self._by_subject[message.subject]
