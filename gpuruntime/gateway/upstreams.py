"""Units as servers: the address of each, and a few connections that are kept for its next request.

A pool belongs to one incarnation and one port, so no request meets a connection to another unit.
"""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any, Final

import aiohttp
from yarl import URL

from gpuruntime.concurrency.clock import loop_time
from gpuruntime.gateway.errors import Code, GatewayError
from gpuruntime.gateway.gate import Visitor
from gpuruntime.informer.store import Store
from gpuruntime.models.kinds.units import GPUUnit, child_key
from gpuruntime.models.kubernetes.network import Service
from gpuruntime.relay.service_addresses import AddressMapping, address_owned_by, origin_of
from gpuruntime.relay.transfer import AUTOMATIC, PIECE_BYTES, RECEIVED_BYTES

# The most connections of one pool that are kept; requests beyond them have one of their own.
_MOST_KEPT: Final = 32
_KEEP_SECONDS: Final = 15.0
_SWEEP_SECONDS: Final = 30.0


class Addresses:
    def __init__(self, services: Store[Service], map_address: AddressMapping) -> None:
        self._services = services
        self._map_address = map_address

    def of(self, unit: GPUUnit, port: int) -> tuple[str, int]:
        """Return host and port of a declared port of the unit. Raise GatewayError."""
        name = unit.metadata.name
        service = self._services.get(child_key(unit))
        address = address_owned_by(unit, service)
        if address is None or not address.is_usable:
            raise GatewayError(Code.UPSTREAM_FAULT, f"unit {name} has no address yet: retry later")
        if port not in {each.port for each in address.ports}:
            raise GatewayError(
                Code.UPSTREAM_FAULT, f"port {port} of unit {name} is not served yet"
            )
        place = self._map_address(address.clusterIP, port)
        if place is None:
            raise GatewayError(
                Code.UPSTREAM_FAULT, f"unit {name} is simulated: nothing listens at its ports"
            )
        return place


class _Pool:
    def __init__(self, kept: aiohttp.ClientSession, single: aiohttp.ClientSession) -> None:
        self.kept = kept
        self.single = single
        self.in_use = 0
        self.used_at = loop_time()

    async def close(self) -> None:
        await self.kept.close()
        await self.single.close()


class Upstreams:
    def __init__(self, addresses: Addresses, *, connect_seconds: float) -> None:
        self.addresses = addresses
        self._connect_seconds = connect_seconds
        self._pools: dict[tuple[str, int], _Pool] = {}

    @asynccontextmanager
    async def session(
        self, visitor: Visitor, *, may_reuse: bool
    ) -> AsyncIterator[aiohttp.ClientSession]:
        """Yield the client for one request, with kept connections if it may be repeated."""
        key = (visitor.uid, visitor.port or 0)
        pool = self._pools.get(key)
        if pool is None:
            pool = self._pools[key] = _Pool(self._open(is_kept=True), self._open(is_kept=False))
        has_room = pool.in_use < _MOST_KEPT
        pool.in_use += 1
        try:
            yield pool.kept if may_reuse and has_room else pool.single
        finally:
            pool.in_use -= 1
            pool.used_at = loop_time()

    def url(self, visitor: Visitor, target: str) -> URL:
        host, port = self.addresses.of(visitor.unit, visitor.port or 0)
        return URL(origin_of(host, port) + target, encoded=True)

    async def run(self) -> None:
        """Close pools that are no longer used, until cancelled; then close all."""
        try:
            while True:
                await asyncio.sleep(_SWEEP_SECONDS)
                await self._sweep()
        finally:
            for pool in self._pools.values():
                await pool.close()

    async def _sweep(self) -> None:
        now = loop_time()
        for key, pool in tuple(self._pools.items()):
            if not pool.in_use and now - pool.used_at > _KEEP_SECONDS:
                del self._pools[key]
                await pool.close()

    def _open(self, *, is_kept: bool) -> aiohttp.ClientSession:
        connector = aiohttp.TCPConnector(
            limit=0,
            use_dns_cache=False,
            socket_factory=_socket,
            **({"keepalive_timeout": _KEEP_SECONDS} if is_kept else {"force_close": True}),
        )
        session = aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            read_bufsize=PIECE_BYTES,
            skip_auto_headers=AUTOMATIC,
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=self._connect_seconds),
            trace_configs=[_reuse_trace()],
        )
        # aiohttp would repeat PUT and DELETE as well, and on a new connection, too.
        session._retry_connection = False  # noqa: SLF001 - held by a test
        return session


def _reuse_trace() -> aiohttp.TraceConfig:
    trace = aiohttp.TraceConfig()

    async def reused(_: Any, context: SimpleNamespace, __: Any) -> None:
        if context.trace_request_ctx is not None:
            context.trace_request_ctx.is_reused = True

    trace.on_connection_reuseconn.append(reused)
    return trace


def _socket(address: Any) -> socket.socket:
    family, kind, protocol, *_ = address
    made = socket.socket(family, kind, protocol)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVED_BYTES)
    return made
