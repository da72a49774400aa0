"""Kubernetes Events about our objects, for `kubectl describe`: recorded at once, sent later.

They belong to the core group: kubectl shows its count, our API reads it, and describe finds them
by involvedObject. An Event may be lost, which is counted, but must never delay a reconcile.
"""

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import Callable, Hashable
from datetime import datetime
from random import Random
from typing import Any, TypeVar

import attrs
from structlog import get_logger

from gpuruntime.concurrency.clock import loop_time
from gpuruntime.concurrency.latest import Latest
from gpuruntime.concurrency.waiting import is_set_within
from gpuruntime.kube.client import Client
from gpuruntime.kube.errors import (
    AlreadyExistsError,
    ApiError,
    ConflictError,
    KubeError,
    NotFoundError,
    OutcomeUnknownError,
    ThrottledError,
    UnavailableError,
    UnreachableError,
)
from gpuruntime.meter import Meter, NullMeter
from gpuruntime.models.encoding import codec
from gpuruntime.models.encoding.json import JsonObject
from gpuruntime.models.kubernetes.cluster import EVENTS, Event, ObjectReference
from gpuruntime.models.kubernetes.metadata import Key, KubernetesObject, ObjectMeta
from gpuruntime.models.kubernetes.resources import Resource
from gpuruntime.models.kubernetes.timestamps import rfc3339

log = get_logger()

ObjectT = TypeVar("ObjectT", bound=KubernetesObject)

LONGEST_MESSAGE_BYTES = 1024  # the API server rejects a longer one
LONGEST_NAME = 230  # with the suffix it stays below the limit of 253
LARGEST_BACKLOG = 1000
REMEMBERED_EVENTS = 4096
# The values of client-go: a burst of 25 per object, then one in five minutes.
BURST = 25
SECONDS_PER_EVENT = 300.0
ATTEMPTS = 5
FIRST_PAUSE_SECONDS = 1.0
LONGEST_PAUSE_SECONDS = 30.0
TRANSIENT = (OutcomeUnknownError, ThrottledError, UnavailableError, UnreachableError)


@attrs.frozen(slots=True)
class _Identity:
    """Events with an equal identity are one Event with a count."""

    about: ObjectReference
    type: str
    reason: str
    message: str


@attrs.define(slots=True)
class _Pending:
    name: str
    first_at: datetime
    last_at: datetime
    count: int = 1


@attrs.frozen(slots=True)
class _Sent:
    key: Key
    version: str
    count: int


@attrs.define(slots=True)
class _Bucket:
    tokens: float
    filled_at: float


class TokenBuckets:
    """Token buckets by key. The bucket unused for longest makes room for a new, full one."""

    def __init__(self, *, burst: int, seconds_per_token: float, capacity: int) -> None:
        self._burst = burst
        self._seconds_per_token = seconds_per_token
        self._buckets: Latest[Hashable, _Bucket] = Latest(capacity)

    def take(self, key: Hashable, moment: float) -> bool:
        """Take a token; return False if there is none. All moments are of one monotonic clock."""
        bucket = self._buckets.get(key, _Bucket(self._burst, moment))
        self._buckets.put(key, bucket)
        gained = (moment - bucket.filled_at) / self._seconds_per_token
        bucket.tokens = min(self._burst, bucket.tokens + gained)
        bucket.filled_at = moment
        if bucket.tokens < 1:
            return False
        bucket.tokens -= 1
        return True


def reference_to(resource: Resource[ObjectT], metadata: ObjectMeta) -> ObjectReference:
    return ObjectReference(
        apiVersion=resource.api_version,
        kind=resource.kind,
        namespace=metadata.namespace,
        name=metadata.name,
        uid=metadata.uid,
    )


class EventRecorder:
    """`record` may be called at any time, but Events are sent only while `run` runs."""

    def __init__(
        self,
        client: Client,
        *,
        component: str,
        now: Callable[[], datetime],
        rng: Random,
        meter: Meter = NullMeter(),
        once_seconds: int = 0,
    ) -> None:
        """If `once_seconds` is given, all processes together send one Event of a reason in it.

        It has the message of the first one, and no count.
        """
        self._client = client
        self._once_seconds = once_seconds
        self._component = component
        self._now = now
        self._rng = rng
        self._meter = meter
        self._buckets = TokenBuckets(
            burst=1 if once_seconds else BURST,
            seconds_per_token=once_seconds or SECONDS_PER_EVENT,
            capacity=REMEMBERED_EVENTS,
        )
        self._pending: OrderedDict[_Identity, _Pending] = OrderedDict()
        self._sent: Latest[_Identity, _Sent] = Latest(REMEMBERED_EVENTS)
        self._wake = asyncio.Event()
        # Set while no Event is pending or being sent.
        self._settled = asyncio.Event()
        self._settled.set()

    def record(
        self, about: ObjectReference, reason: str, message: str, *, is_warning: bool = False
    ) -> None:
        """Queue an Event and return. It never fails: excess Events are dropped and counted."""
        identity = _Identity(
            about, "Warning" if is_warning else "Normal", reason, shortened(message)
        )
        moment = loop_time()
        if not self._buckets.take(self._limited(identity), moment):
            self._drop("rate")
        elif identity in self._pending:
            pending = self._pending[identity]
            pending.count, pending.last_at = pending.count + 1, self._now()
        elif len(self._pending) >= LARGEST_BACKLOG:
            self._drop("backlog")
        else:
            self._pending[identity] = self._new(identity)
            self._settled.clear()
            self._wake.set()

    async def run(self) -> None:
        """Send Events one at a time, in the order of their first record."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._pending:
                identity, pending = self._pending.popitem(last=False)
                try:
                    await self._deliver(identity, pending)
                except asyncio.CancelledError:
                    self._drop("stopped", 1 + len(self._pending))
                    raise
            self._settled.set()

    async def settle(self, seconds: float) -> None:
        """Wait at most `seconds` until all recorded Events are sent or dropped."""
        await is_set_within(self._settled, seconds)

    def _limited(self, identity: _Identity) -> Hashable:
        about = identity.about
        key = (about.uid, about.namespace, about.name)
        return (*key, identity.reason) if self._once_seconds else key

    def _new(self, identity: _Identity) -> _Pending:
        """Choose the name once, so that a retried create makes no second Event.

        Of two processes with the same name for theirs, the second finds the Event of the first.
        """
        moment, about = self._now(), identity.about
        suffix = f"{self._rng.getrandbits(64):016x}"
        if self._once_seconds:
            interval = int(moment.timestamp()) // self._once_seconds
            text = f"{about.uid} {identity.reason} {interval}"
            suffix = hashlib.sha256(text.encode()).hexdigest()[:16]
        return _Pending(f"{about.name[:LONGEST_NAME]}.{suffix}", moment, moment)

    async def _deliver(self, identity: _Identity, pending: _Pending) -> None:
        pause = FIRST_PAUSE_SECONDS
        for _ in range(ATTEMPTS):
            try:
                await self._send(identity, pending)
            except TRANSIENT as error:
                asked = error.retry_after_seconds if isinstance(error, ApiError) else None
                await asyncio.sleep(max(pause, asked or 0.0))
                pause = min(2 * pause, LONGEST_PAUSE_SECONDS)
            except KubeError as error:
                log.debug("event refused", about=identity.about.name, error=str(error))
                self._drop("refused")
                return
            else:
                self._meter.count("events_sent_total")
                return
        self._drop("unavailable")

    async def _send(self, identity: _Identity, pending: _Pending) -> None:
        known = self._sent.get(identity, None)
        self._sent.discard(identity)
        event = await self._counted_up(known, pending) if known else None
        if event is None:
            event = await self._created(identity, pending)
        if event is not None and not self._once_seconds:
            self._remember(identity, event)

    async def _counted_up(self, known: _Sent, pending: _Pending) -> Event | None:
        """Return the Event with its new count, or None if it has expired or was changed since."""
        patch: JsonObject = {
            "count": known.count + pending.count,
            "lastTimestamp": rfc3339(pending.last_at),
        }
        try:
            return await self._client.patch(
                EVENTS, known.key, patch, resource_version=known.version
            )
        except (NotFoundError, ConflictError):
            return None

    async def _created(self, identity: _Identity, pending: _Pending) -> Event | None:
        """Return the new Event, or None if an earlier attempt of ours has created it."""
        namespace = identity.about.namespace or "default"
        body: JsonObject = {
            "apiVersion": EVENTS.api_version,
            "kind": EVENTS.kind,
            "metadata": {"namespace": namespace, "name": pending.name},
            "involvedObject": codec.to_json(identity.about),
            "type": identity.type,
            "reason": identity.reason,
            "message": identity.message,
            "source": {"component": self._component},
            "reportingComponent": self._component,
            "count": pending.count,
            "firstTimestamp": rfc3339(pending.first_at),
            "lastTimestamp": rfc3339(pending.last_at),
        }
        try:
            return await self._client.create(EVENTS, body, namespace=namespace)
        except AlreadyExistsError:
            return None

    def _remember(self, identity: _Identity, event: Event) -> None:
        metadata = event.metadata
        self._sent.put(identity, _Sent(metadata.key, metadata.resourceVersion, event.count))

    def _drop(self, cause: str, amount: int = 1) -> None:
        self._meter.count("events_dropped_total", amount, cause=cause)


@attrs.frozen(slots=True)
class Note:
    """A Kubernetes Event to record; the caller supplies the object.

    A repeated Event is counted by its message, so the message holds nothing that changes often.
    """

    reason: str
    message: str
    is_warning: bool = False


def record_note(
    recorder: EventRecorder, resource: Resource[Any], about: KubernetesObject, note: Note
) -> None:
    """Queue the Event and return; `run` sends it later."""
    reference = reference_to(resource, about.metadata)
    recorder.record(reference, note.reason, note.message, is_warning=note.is_warning)


def shortened(message: str) -> str:
    """Cut the message to the bytes that the API server accepts, without a partial character."""
    encoded = message.encode()
    if len(encoded) <= LONGEST_MESSAGE_BYTES:
        return message
    cut = encoded[: LONGEST_MESSAGE_BYTES - len("…".encode())]
    return cut.decode(errors="ignore") + "…"
