"""The leader's readings of the gateway's replicas. They write nothing."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from enum import StrEnum
from typing import Final, TypeAlias

import aiohttp
import attrs
import structlog

from gpuruntime.concurrency.clock import loop_time
from gpuruntime.kube.client import Client
from gpuruntime.kube.errors import KubeError
from gpuruntime.meter import Meter
from gpuruntime.models.encoding import codec
from gpuruntime.models.kinds.activity import (
    ACTIVITY_PATH,
    ACTIVITY_PORT,
    GATEWAY_SELECTOR,
    ActivityReport,
)
from gpuruntime.models.kubernetes.pods import PODS, Pod
from gpuruntime.reconcilers.activity.status import Activity, Reading, Round, after_round

log = structlog.get_logger()

# Returns the body that the URL answers; raises OSError or TimeoutError if there is none.
Fetch: TypeAlias = Callable[[str], Awaitable[bytes]]
# A context that yields a Fetch.
Fetching: TypeAlias = Callable[[], AbstractAsyncContextManager[Fetch]]

READING_SECONDS: Final = 10.0
LISTS_WITHOUT_READY: Final = 2
# 50,000 units with a uid, two numbers and their names.
MOST_BYTES: Final = 8 * 1024 * 1024
# In these phases a Pod has no process that serves: it has not begun, or has ended.
_WITHOUT_PROCESS: Final = frozenset({"Pending", "Succeeded", "Failed"})
_CHUNK_BYTES: Final = 64 * 1024
_OK: Final = 200


class Outcome(StrEnum):
    READ = "read"
    UNREACHABLE = "unreachable"
    MALFORMED = "malformed"
    NOT_LISTED = "not_listed"


@asynccontextmanager
async def fetching_over_http() -> AsyncIterator[Fetch]:
    """Yield a Fetch that follows no redirect, and keeps no connection and no cookie."""
    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(force_close=True),
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=aiohttp.ClientTimeout(total=READING_SECONDS),
    ) as session:

        async def fetch(url: str) -> bytes:
            try:
                async with session.get(url, allow_redirects=False) as answer:
                    if answer.status != _OK:
                        raise ConnectionError(f"{url} answers {answer.status}")
                    body = bytearray()
                    async for chunk in answer.content.iter_chunked(_CHUNK_BYTES):
                        body += chunk
                        if len(body) > MOST_BYTES:
                            raise ConnectionError(f"{url} answers more than {MOST_BYTES} bytes")
                    return bytes(body)
            except aiohttp.ClientError as error:
                raise ConnectionError(f"{url} does not answer: {error}") from error

        yield fetch


@attrs.frozen(kw_only=True, slots=True)
class Replica:
    """A replica of the gateway; one that does not serve has not begun, or has ended."""

    uid: str
    name: str
    url: str
    serves: bool
    is_ready: bool


# Returns the gateway's replicas, terminating ones too; raises KubeError.
ListReplicas: TypeAlias = Callable[[], Awaitable[tuple[Replica, ...]]]


@attrs.frozen(kw_only=True, slots=True)
class ActivityOptions:
    """`replicas` are by default the Pods of the namespace that have the gateway's label."""

    namespace: str
    every_seconds: float
    fetching: Fetching
    replicas: ListReplicas | None = None


@attrs.define(kw_only=True, slots=True)
class ActivityReader:
    """ActivityReader asks every replica of the gateway how long ago each unit was active.

    Idle times are in memory alone. They begin at zero with each leader, and do not grow while a
    replica cannot be read.
    """

    client: Client
    options: ActivityOptions
    # Returns the uids of the units that exist.
    living: Callable[[], Collection[str]]
    on_ready_change: Callable[[], None]
    meter: Meter
    # Whether a replica of the gateway is ready; None until the first list.
    is_gateway_ready: bool | None = attrs.field(default=None, init=False)
    activity: Activity | None = attrs.field(default=None, init=False)
    _fault: str = attrs.field(default="", init=False)
    # How many lists in a row had no ready replica.
    _unready: int = attrs.field(default=0, init=False)

    def idle_seconds(self, uid: str) -> float:
        """Return for how long the unit is known to be idle, as of the last round."""
        return self.activity.idle_seconds(uid) if self.activity else 0.0

    @property
    def known_seconds(self) -> float:
        """Return for how long every replica has been read; no unit is known to be idle longer."""
        return self.activity.known_seconds if self.activity else 0.0

    async def run(self) -> None:
        async with self.options.fetching() as fetch:
            while True:
                await self._read(fetch)
                await asyncio.sleep(self.options.every_seconds)

    async def _read(self, fetch: Fetch) -> None:
        done = await self._round(fetch)
        if done.fault and not self._fault:
            log.warning("activity not read, so all units count as active", error=done.fault)
        self._fault = done.fault
        self.activity = after_round(self.activity, done, self.living())

    async def _round(self, fetch: Fetch) -> Round:
        began_at = loop_time()
        try:
            replicas = await self._serving()
        except KubeError as error:
            self._count(Outcome.NOT_LISTED)
            return Round(began_at=began_at, ended_at=loop_time(), readings=(), fault=str(error))
        async with asyncio.TaskGroup() as tasks:
            running = [
                tasks.create_task(self._reading(each, fetch), name=f"activity {each.name}")
                for each in replicas
            ]
        found = [task.result() for task in running]
        return Round(
            began_at=began_at,
            ended_at=loop_time(),
            readings=tuple(each for each in found if isinstance(each, Reading)),
            fault=next((each for each in found if isinstance(each, str)), ""),
        )

    async def _serving(self) -> tuple[Replica, ...]:
        """Return the replicas that may serve, terminating ones too: they still have callers."""
        replicas = await (self.options.replicas or self._listed)()
        self._note_readiness(any(each.is_ready for each in replicas))
        return tuple(each for each in replicas if each.serves)

    async def _listed(self) -> tuple[Replica, ...]:
        page = await self.client.list_page(
            PODS, namespace=self.options.namespace, label_selector=GATEWAY_SELECTOR, limit=0
        )
        return tuple(map(_replica_of, page.items))

    def _note_readiness(self, is_ready: bool) -> None:
        """Report a change; it costs a write for each unit, so a short loss does not count."""
        self._unready = 0 if is_ready else self._unready + 1
        if is_ready or self._unready >= LISTS_WITHOUT_READY:
            before, self.is_gateway_ready = self.is_gateway_ready, is_ready
            if before is not is_ready:
                self.on_ready_change()

    async def _reading(self, replica: Replica, fetch: Fetch) -> Reading | str:
        """Return the replica's reading, or why there is none."""
        try:
            async with asyncio.timeout(READING_SECONDS):
                body = await fetch(replica.url)
            report = codec.decode(body, ActivityReport)
        except (OSError, TimeoutError) as error:
            self._count(Outcome.UNREACHABLE)
            return f"{replica.name}: {str(error) or 'no answer in time'}"
        except codec.MalformedObjectError as error:
            self._count(Outcome.MALFORMED)
            return f"{replica.name}: {error}"
        self._count(Outcome.READ)
        return Reading(pod_uid=replica.uid, report=report, read_at=loop_time())

    def _count(self, outcome: Outcome) -> None:
        self.meter.count("activity_readings_total", outcome=outcome)


def _replica_of(pod: Pod) -> Replica:
    address = pod.status.podIP
    host = f"[{address}]" if ":" in address else address
    return Replica(
        uid=pod.metadata.uid,
        name=pod.metadata.name,
        url=f"http://{host}:{ACTIVITY_PORT}{ACTIVITY_PATH}",
        serves=pod.status.phase not in _WITHOUT_PROCESS,
        is_ready=pod.is_ready,
    )
