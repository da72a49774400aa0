"""Units, keys and tickets for tests of the gateway."""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, Final

import attrs

from gpuruntime.gateway.gate import Gate, Presented, Wanted
from gpuruntime.gateway.units import GATEWAY_INDEXES, Units
from gpuruntime.informer.store import Store, Tables
from gpuruntime.models.kinds.templates import Port, Template
from gpuruntime.models.kinds.units import Access, GPUUnit, GPUUnitSpec
from gpuruntime.models.kubernetes.metadata import ObjectMeta
from gpuruntime.models.requests.tickets import Use
from gpuruntime.tickets.keys import KeyRing, TicketKey
from gpuruntime.tickets.tokens import Claims, TokenType, sign

NOW: Final = datetime(2027, 1, 15, 8, tzinfo=UTC)
NAMESPACE: Final = "runtime-instance"
KEY: Final = TicketKey(id="k1", secret=b"1" * 32)
RING: Final = KeyRing((KEY,))
PORTS: Final = (Port(name="http", port=8080), Port(name="metrics", port=9100))


def unit(
    name: str = "demo",
    *,
    uid: str = "",
    suspended: bool = False,
    ports: tuple[Port, ...] = PORTS,
    **access: Any,
) -> GPUUnit:
    return GPUUnit(
        metadata=ObjectMeta(
            name=name, namespace=NAMESPACE, uid=uid or f"uid-of-{name}", resourceVersion="1"
        ),
        spec=GPUUnitSpec(
            specName="a1",
            suspended=suspended,
            template=Template(ports=ports),
            access=Access(**access),
        ),
    )


def claims(of: GPUUnit, **changed: Any) -> Claims:
    """Return claims for every use of the unit and its port 8080."""
    now = int(NOW.timestamp())
    made = Claims(
        jti=f"jti-{of.metadata.uid}",
        uid=of.metadata.uid,
        unit=of.metadata.name,
        gen=of.spec.access.generation,
        use=tuple(Use),
        port=8080,
        iat=now,
        exp=now + 900,
        sub="tester",
    )
    return attrs.evolve(made, **changed)


def ticket(of: GPUUnit, kind: TokenType = TokenType.TICKET, **changed: Any) -> str:
    return sign(claims(of, **changed), kind, KEY)


def presented(of: GPUUnit, kind: TokenType = TokenType.TICKET, **changed: Any) -> Presented:
    return Presented(kind=kind, token=ticket(of, kind, **changed))


def store_of(units: Iterable[GPUUnit]) -> Store[GPUUnit]:
    tables = Tables(GATEWAY_INDEXES)
    for each in units:
        tables.put(each.metadata.key, each)
    return Store(tables)


def gate_of(*units: GPUUnit, age: float = 0.0, ring: KeyRing | None = RING) -> Gate:
    return Gate(
        Units(store_of(units), NAMESPACE), lambda: ring, now=lambda: NOW, watch_age=lambda: age
    )


def http(name: str = "demo", port: str = "8080") -> Wanted:
    return Wanted(use=Use.HTTP, name=name, port=port)
