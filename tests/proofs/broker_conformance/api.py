"""The verbs of the JetStream API that the product uses, answered as the broker does."""

import base64
import json
from collections.abc import Callable
from datetime import datetime
from typing import Any, Final, TypeAlias

import attrs

from tests.proofs.broker_conformance.consumers import Sending
from tests.proofs.broker_conformance.messages import Message
from tests.proofs.broker_conformance.refusals import (
    RefusalError,
    no_message,
    no_stream,
    stream_exists,
)
from tests.proofs.broker_conformance.streams import Stream

PREFIX: Final = "$JS.API."
LOST_CONSUMER: Final = "$JS.EVENT.ADVISORY.CONSUMER.DELETED"
# The page size of the real broker.
MOST_SUBJECTS: Final = 100_000
MOST_NAMES: Final = 1024
STREAM_DEFAULTS: Final[dict[str, Any]] = {
    "retention": "limits",
    "discard": "old",
    "max_consumers": -1,
    "max_msgs": -1,
    "max_bytes": -1,
    "max_age": 0,
    "max_msgs_per_subject": -1,
    "max_msg_size": -1,
    "storage": "file",
    "num_replicas": 1,
    "duplicate_window": 120_000_000_000,
}
Document: TypeAlias = dict[str, Any]


@attrs.frozen(slots=True)
class Reply:
    data: bytes
    headers: dict[str, str] = attrs.field(factory=dict)
    subject: str = ""


class Api:
    def __init__(self, sending: Sending, now: Callable[[], datetime]) -> None:
        self.streams: dict[str, Stream] = {}
        self._sending = sending
        self._now = now
        self._verbs: dict[str, Callable[[list[str], Document], Document]] = {
            "STREAM.CREATE": self._make_stream,
            "STREAM.UPDATE": self._change_stream,
            "STREAM.INFO": self._tell_stream,
            "STREAM.MSG.GET": self._get,
            "STREAM.MSG.DELETE": self._delete,
            "CONSUMER.CREATE": self._make_consumer,
            "CONSUMER.INFO": self._tell_consumer,
            "CONSUMER.DELETE": self._delete_consumer,
            "CONSUMER.NAMES": self._name_consumers,
        }

    def ask(self, subject: str, data: bytes, reply: str) -> Reply | None:
        """Return the answer, or None if there is no responder or the answers follow later."""
        asked = subject.removeprefix(PREFIX)
        if asked == "INFO":
            return Reply(b"{}")
        if asked.startswith("DIRECT.GET."):
            return self._get_directly(asked.removeprefix("DIRECT.GET."), data, reply)
        if asked.startswith("CONSUMER.MSG.NEXT."):
            return self._pull(asked.removeprefix("CONSUMER.MSG.NEXT."), data, reply)
        verb = next((each for each in self._verbs if asked.startswith(f"{each}.")), None)
        if verb is None:
            return no_responders()
        names = asked.removeprefix(f"{verb}.").split(".")
        try:
            answer = self._verbs[verb](names, json.loads(data or b"{}"))
        except RefusalError as refusal:
            answer = refusal.body
        return Reply(json.dumps(answer).encode())

    def stream_of(self, subject: str) -> Stream | None:
        return next((each for each in self.streams.values() if each.takes(subject)), None)

    def _stream(self, name: str) -> Stream:
        if name not in self.streams:
            raise no_stream()
        return self.streams[name]

    def _make_stream(self, names: list[str], asked: Document) -> Document:
        config = {**STREAM_DEFAULTS, **asked}
        found = self.streams.get(names[0])
        if found is not None and found.config != config:
            raise stream_exists()
        made = found or Stream(config, self._sending, self._now)
        self.streams[made.name] = made
        return made.info()

    def _change_stream(self, names: list[str], asked: Document) -> Document:
        stream = self._stream(names[0])
        stream.update({**STREAM_DEFAULTS, **asked})
        return stream.info()

    def _tell_stream(self, names: list[str], asked: Document) -> Document:
        stream = self._stream(names[0])
        told, pattern = stream.info(), asked.get("subjects_filter", "")
        if not pattern:
            return told
        offset = asked.get("offset", 0)
        counts = stream.messages.counts(pattern)
        page = dict(sorted(counts.items())[offset : offset + MOST_SUBJECTS])
        told["state"]["subjects"] = page
        return {**told, "total": len(counts), "offset": offset, "limit": MOST_SUBJECTS}

    def _get(self, names: list[str], asked: Document) -> Document:
        messages = self._stream(names[0]).messages
        if "last_by_subj" in asked:
            found = messages.last(asked["last_by_subj"])
        elif "next_by_subj" in asked:
            found = messages.following(asked["seq"], asked["next_by_subj"])
        else:
            found = messages.get(asked["seq"])
        if found is None:
            raise no_message()
        return {"message": _told(found)}

    def _get_directly(self, asked: str, data: bytes, reply: str) -> Reply:
        name, _, subject = asked.partition(".")
        stream = self.streams.get(name)
        if stream is None or not stream.config.get("allow_direct"):
            return no_responders()
        if not subject:
            return self._get_batch(stream, json.loads(data), reply)
        found = stream.messages.last(subject)
        return _shown(stream, found) if found else _status(404, "Message Not Found")

    def _get_batch(self, stream: Stream, asked: Document, reply: str) -> Reply:
        """Send all messages of the batch here; the caller sends its end."""
        if asked.get("seq", 0) < 0:
            return _status(408, "Bad Request")
        found = list(stream.messages.matching(asked.get("seq", 0), asked["next_by_subj"]))
        if "start_time" in asked:
            since = datetime.fromisoformat(asked["start_time"])
            found = [message for message in found if message.stored_at >= since]
        if not found:
            return _status(404, "Message Not Found")
        room, left = asked["max_bytes"], len(found)
        for message in found[: asked["batch"]]:
            left -= 1
            shown = _shown(stream, message)
            headers = {**shown.headers, "Nats-Num-Pending": str(left)}
            self._sending.send(reply, shown.data, "", headers, reply)
            room -= len(message.data)
            if room <= 0:
                break
        return _status(204, "EOB", **{"Nats-Num-Pending": str(left)})

    def _delete(self, names: list[str], asked: Document) -> Document:
        self._stream(names[0]).messages.delete(asked["seq"])
        return {"success": True}

    def _make_consumer(self, names: list[str], asked: Document) -> Document:
        stream = self._stream(names[0])
        return stream.make_consumer(asked["config"], asked.get("action", "")).info()

    def _tell_consumer(self, names: list[str], _: Document) -> Document:
        return self._stream(names[0]).consumer(names[1]).info()

    def _delete_consumer(self, names: list[str], _: Document) -> Document:
        stream, name = self._stream(names[0]), names[1]
        stream.delete_consumer(name)
        advisory = json.dumps({"stream": stream.name, "consumer": name, "action": "delete"})
        subject = f"{LOST_CONSUMER}.{stream.name}.{name}"
        self._sending.send(subject, advisory.encode(), "", {}, subject)
        return {"success": True}

    def _name_consumers(self, names: list[str], asked: Document) -> Document:
        found = sorted(self._stream(names[0]).consumers)
        offset = asked.get("offset", 0)
        page = found[offset : offset + MOST_NAMES]
        return {"total": len(found), "offset": offset, "limit": MOST_NAMES, "consumers": page}

    def _pull(self, asked: str, data: bytes, reply: str) -> Reply | None:
        name, _, consumer = asked.partition(".")
        stream = self.streams.get(name)
        if stream is None or consumer not in stream.consumers:
            return no_responders()
        stream.consumers[consumer].pull(reply, json.loads(data or b"{}"))
        return None


def no_responders() -> Reply:
    return Reply(b"", {"Status": "503"})


def _shown(stream: Stream, message: Message) -> Reply:
    told = {
        "Nats-Stream": stream.name,
        "Nats-Subject": message.subject,
        "Nats-Sequence": str(message.sequence),
        "Nats-Time-Stamp": message.stored_at.isoformat(),
    }
    return Reply(message.data, {**message.headers, **told})


def _status(code: int, text: str, **headers: str) -> Reply:
    return Reply(b"", {"Status": str(code), "Description": text, **headers})


def _told(message: Message) -> Document:
    return {
        "subject": message.subject,
        "seq": message.sequence,
        "data": base64.b64encode(message.data).decode(),
        "time": message.stored_at.isoformat(),
    }
