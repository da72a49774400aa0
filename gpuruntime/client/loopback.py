"""Names below `localhost` are this machine, whatever a resolver knows of them (RFC 6761)."""

import socket
from typing import Final

from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.resolver import DefaultResolver

_ADDRESSES: Final = {socket.AF_INET: "127.0.0.1", socket.AF_INET6: "::1"}


class LoopbackResolver(AbstractResolver):
    """A resolver that asks nothing about names such as `8080--demo.localhost`."""

    def __init__(self) -> None:
        self._others = DefaultResolver()

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        if not is_loopback_name(host):
            return await self._others.resolve(host, port, family)
        return [
            ResolveResult(
                hostname=host,
                host=address,
                port=port,
                family=kind,
                proto=socket.IPPROTO_TCP,
                flags=socket.AI_NUMERICHOST,
            )
            for kind, address in _ADDRESSES.items()
            if family in (kind, socket.AF_UNSPEC)
        ]

    async def close(self) -> None:
        await self._others.close()


def is_loopback_name(host: str) -> bool:
    name = host.lower().removesuffix(".")
    return name == "localhost" or name.endswith(".localhost")
