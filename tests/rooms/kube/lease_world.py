"""A server with one Lease, connections to it that fail, and processes that stall."""

import asyncio
from collections.abc import Callable, Coroutine, Generator
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import attrs

from gpuruntime.kube.errors import OutcomeUnknownError, UnreachableError
from gpuruntime.kube.lease import Elector, LeaseOptions
from gpuruntime.kube.transport import Request, Response, Socket, StreamResponse
from gpuruntime.models.encoding import codec
from gpuruntime.models.kubernetes.metadata import Key
from tests.options import configured
from tests.rooms.kube.things import answer, failure

KEY = Key("system", "gpuruntime-manager")
PATH = "/apis/coordination.k8s.io/v1/namespaces/system/leases"
START = datetime(2026, 1, 1, tzinfo=UTC)


class LeaseServer:
    """An API server reduced to one Lease, with versions and guards."""

    def __init__(self) -> None:
        self.lease: dict[str, Any] | None = None
        self.version = 0
        self.writes: list[dict[str, Any]] = []
        self.written = asyncio.Event()

    @property
    def holder(self) -> str:
        return (self.lease or {}).get("spec", {}).get("holderIdentity") or ""

    def handle(self, request: Request) -> Response:
        if request.method == "POST":
            return self._create(codec.decode_object(request.body or b""))
        assert request.path == f"{PATH}/{KEY.name}"
        if self.lease is None:
            return failure(404, "NotFound", "no such lease")
        if request.method == "GET":
            return answer(self.lease)
        return self._patch(codec.decode_object(request.body or b""))

    def put(self, **spec: Any) -> None:
        """Change the Lease without a guard, as an operator or another elector would."""
        self.version += 1
        metadata = {
            "namespace": KEY.namespace,
            "name": KEY.name,
            "resourceVersion": str(self.version),
        }
        self.lease = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": metadata,
            "spec": spec,
        }

    def _create(self, body: dict[str, Any]) -> Response:
        if self.lease is not None:
            return failure(409, "AlreadyExists", "it is there")
        self.put(**body["spec"])
        self._record(body["spec"])
        return answer(self.lease, 201)

    def _patch(self, patch: dict[str, Any]) -> Response:
        assert self.lease is not None
        if patch["metadata"]["resourceVersion"] != str(self.version):
            return failure(409, "Conflict", "the version is another one")
        merged = {**self.lease["spec"], **patch["spec"]}
        self.put(**{name: value for name, value in merged.items() if value is not None})
        self._record(merged)
        return answer(self.lease)

    def _record(self, spec: dict[str, Any]) -> None:
        self.writes.append(spec)
        self.written.set()


@attrs.define
class Wire:
    """The connection of one process. A sent request arrives even if the sender gives up."""

    server: LeaseServer
    rng: Random
    latency: tuple[float, float] = (0.001, 0.02)
    cut: str = ""
    refusal: Response | None = None
    sent: int = 0

    async def request(self, request: Request) -> Response:
        self.sent += 1
        if self.cut == "refused":
            raise UnreachableError("connection refused")
        if self.refusal is not None:
            return self.refusal
        loop = asyncio.get_running_loop()
        answered: asyncio.Future[Response] = loop.create_future()
        if self.cut != "silent":
            loop.call_later(self._delay(), self._arrive, request, answered)
        try:
            async with asyncio.timeout(request.timeout_seconds):
                return await answered
        except TimeoutError as error:
            raise OutcomeUnknownError("no answer") from error

    def stream(self, request: Request) -> AbstractAsyncContextManager[StreamResponse]:
        raise NotImplementedError(f"an elector does not watch: {request.path}")

    def socket(
        self, request: Request, protocol: str
    ) -> AbstractAsyncContextManager[Socket | Response]:
        raise NotImplementedError(f"no test here opens a {protocol}: {request.path}")

    def _delay(self) -> float:
        return self.rng.uniform(*self.latency)

    def _arrive(self, request: Request, answered: asyncio.Future[Response]) -> None:
        response = self.server.handle(request)
        if self.cut != "deaf":
            asyncio.get_running_loop().call_later(self._delay(), _settle, answered, response)


def _settle(answered: asyncio.Future[Response], response: Response) -> None:
    if not answered.done():
        answered.set_result(response)


@attrs.define
class Clock:
    """Return the process's own clock, with its own origin and its own rate."""

    rate: float = 1.0
    offset: float = 0.0

    def __call__(self) -> float:
        return asyncio.get_running_loop().time() * self.rate + self.offset


@attrs.define
class Stall:
    """Stall the process: nothing of it runs, but its clock and the server go on."""

    until: float = 0.0

    def begin(self, seconds: float) -> None:
        self.until = asyncio.get_running_loop().time() + seconds


@attrs.frozen
class Stalled:
    """Await a coroutine as a process does whose loop may stall at every await."""

    coroutine: Coroutine[Any, Any, None]
    stall: Stall

    def __await__(self) -> Generator[Any, Any, None]:
        fault: BaseException | None = None
        while True:
            try:
                waited_for = (
                    self.coroutine.send(None) if fault is None else self.coroutine.throw(fault)
                )
            except StopIteration:
                return
            fault = None
            try:
                yield waited_for
            except asyncio.CancelledError as error:
                fault = error
            while (left := self.stall.until - asyncio.get_running_loop().time()) > 0:
                try:
                    yield from asyncio.sleep(left).__await__()
                except asyncio.CancelledError as error:
                    fault = error


class LeadingMeter:
    """An elector that calls back at the moment when the fence opens."""

    def __init__(self, opened: Callable[[], None]) -> None:
        self._opened = opened

    def count(self, name: str, _amount: float = 1, /, **labels: str) -> None:
        pass

    def gauge(self, name: str, value: float, /, **_labels: str) -> None:
        if name == "lease_leading" and value:
            self._opened()

    def observe(self, name: str, seconds: float, /, **labels: str) -> None:
        pass


def elector(
    wire: Wire,
    identity: str,
    *,
    clock: Clock | None = None,
    opened: Callable[[], None] = lambda: None,
    seed: int = 1,
    wall: Callable[[], datetime] | None = None,
) -> Elector:
    loop = asyncio.get_running_loop()
    return Elector(
        wire,
        configured(LeaseOptions, key=KEY, identity=identity),
        clock=clock or Clock(),
        now=wall or (lambda: START + timedelta(seconds=loop.time())),
        rng=Random(seed),
        meter=LeadingMeter(opened),
    )
