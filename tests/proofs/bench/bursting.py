"""150 claims at once on a cluster with room: `python -m tests.proofs.bench.bursting`.

The bench watches units, Deployments and Pods itself, so all moments are of one clock. The baseline
is the same writes from keep-alive connections, to namespaces in which no manager works; the
cluster's own controllers run its Pods, too. Units count as started when their Deployment exists.
"""

import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from statistics import median, quantiles
from typing import Any

import attrs

from gpuruntime.kube.transport import MERGE_PATCH
from gpuruntime.models.encoding import codec
from gpuruntime.models.kinds import labels
from gpuruntime.models.kinds.units import GPU_UNITS, GPUUnit
from gpuruntime.models.kubernetes.network import NETWORK_POLICIES, SERVICES
from gpuruntime.models.kubernetes.pods import PODS
from gpuruntime.models.kubernetes.resources import Resource
from gpuruntime.models.kubernetes.workloads import DEPLOYMENTS
from gpuruntime.operations.options import Namespaces
from tests.eventually import eventually
from tests.proofs.bench.claiming import (
    PLACE,
    SETTLING_SECONDS,
    WRITERS,
    is_stocked,
    leaders_first_minute,
    seed,
)
from tests.proofs.bench.connections import Address, Connection, connections
from tests.proofs.bench.product import address_of, health, prepared_plane, replica, role
from tests.proofs.bench.rows import Row
from tests.proofs.bench.unit_requests import Pair, add_stock, ask, pair, spread
from tests.proofs.real_cluster.controlplane import ControlPlane

RAW_PLACE = Namespaces(stock="raw-stock", instance="raw-units", system="raw-system")
UNITS_AT_ONCE = 150
ROUNDS = 3
# In the product's order: no Pod may run before its policy, nor be ready before its Service.
CHILDREN: tuple[Resource[Any], ...] = (NETWORK_POLICIES, SERVICES, DEPLOYMENTS)
# Members that the API server fills in, and rejects or ignores in a new object.
FILLED_IN = ("uid", "resourceVersion", "generation", "creationTimestamp", "managedFields")
ADDRESSES = ("clusterIP", "clusterIPs")


@attrs.frozen(kw_only=True)
class Moments:
    """When each unit got there, in seconds of this process's clock, by the unit's name."""

    asked: dict[str, float] = attrs.field(factory=dict)
    started: dict[str, float] = attrs.field(factory=dict)
    running: dict[str, float] = attrs.field(factory=dict)
    ready: dict[str, float] = attrs.field(factory=dict)

    @property
    def begun(self) -> float:
        return min(self.asked.values())

    @property
    def started_rate(self) -> float:
        return len(self.started) / (max(self.started.values()) - self.begun)

    @property
    def ready_seconds(self) -> list[float]:
        return [at - self.asked[name] for name, at in self.ready.items()]

    @property
    def whole_seconds(self) -> float:
        return max(self.ready.values()) - self.begun


@asynccontextmanager
async def watched(address: Address) -> AsyncIterator[Moments]:
    """Watch the product's namespace until the block ends; the moments of old units stay out."""
    moments = Moments()
    kinds: tuple[tuple[Resource[Any], dict[str, float], Callable[[Any], bool]], ...] = (
        (DEPLOYMENTS, moments.started, lambda _: True),
        (PODS, moments.running, lambda status: status.get("phase") == "Running"),
        (GPU_UNITS, moments.ready, lambda status: status.get("phase") == "Ready"),
    )

    async def watch(
        connection: Connection,
        resource: Resource[Any],
        seen: dict[str, float],
        is_there: Callable[[Any], bool],
    ) -> None:
        path = resource.path(namespace=PLACE.instance)
        async for event in connection.stream(f"{path}?watch=true"):
            name = event["object"]["metadata"]["labels"][labels.UNIT]
            if name in moments.asked and is_there(event["object"].get("status", {})):
                seen.setdefault(name, time.perf_counter())

    async with connections(address, len(kinds)) as opened, asyncio.TaskGroup() as tasks:
        watches = [
            tasks.create_task(watch(connection, *kind))
            for connection, kind in zip(opened, kinds, strict=True)
        ]
        yield moments
        for each in watches:
            each.cancel()


async def burst(plane: Address, api: Address, spec_name: str) -> Moments:
    async def call(connection: Connection, number: int) -> None:
        name = f"{spec_name}-{number}"
        moments.asked[name] = time.perf_counter()
        status = await ask(connection, name, spec_name)
        assert status == 201, status

    async with watched(plane) as moments, connections(api, UNITS_AT_ONCE) as opened:
        await spread(opened, range(UNITS_AT_ONCE), call)
        await eventually(
            lambda: len(moments.ready),
            lambda count: count == UNITS_AT_ONCE,
            within_seconds=SETTLING_SECONDS,
        )
    return moments


@attrs.frozen(kw_only=True)
class RawUnit:
    """All writes of one claim, from its mark to the deletion of its stock."""

    claim: Pair
    name: str
    model: "UnitDocuments"

    async def write(self, connection: Connection) -> float:
        """Send the writes, and return the moment at which the Deployment existed."""
        uid = (await self.claim.write(connection)).document["metadata"]["uid"]
        for resource, child in self.model.children(self.name, uid):
            path = resource.path(namespace=RAW_PLACE.instance)
            answer = await connection.send("POST", path, child)
            assert answer.status == 201, answer.body
        made_at = time.perf_counter()
        path = GPU_UNITS.path(namespace=RAW_PLACE.instance, name=self.name, subresource="status")
        for phase in ("Progressing", "Ready"):
            body = codec.encode({"status": {**self.model.unit["status"], "phase": phase}})
            assert (await connection.send("PATCH", path, body, MERGE_PATCH)).status == 200
        assert (await connection.send("DELETE", self.claim.stock)).status == 200
        return made_at


@attrs.frozen(kw_only=True)
class UnitDocuments:
    """A unit that the product started, and its children, as the API server shows them."""

    unit: Any
    documents: tuple[tuple[Resource[Any], Any], ...]

    def children(self, name: str, uid: str) -> Iterator[tuple[Resource[Any], bytes]]:
        """Yield the children as they would be for a unit of this name and uid."""
        metadata = self.unit["metadata"]
        for resource, document in self.documents:
            text = json.dumps(document).replace(metadata["name"], name)
            yield resource, text.replace(metadata["uid"], uid).encode()


def documents_of(plane: ControlPlane, name: str) -> UnitDocuments:
    def read(resource: Resource[Any], child: str) -> Any:
        return plane.request("GET", resource.path(namespace=PLACE.instance, name=child))

    return UnitDocuments(
        unit=read(GPU_UNITS, name),
        documents=tuple((each, _as_new(read(each, f"unit-{name}"))) for each in CHILDREN),
    )


def _as_new(document: Any) -> Any:
    metadata = {**document["metadata"], "namespace": RAW_PLACE.instance}
    return {
        **{member: value for member, value in document.items() if member != "status"},
        "metadata": {each: value for each, value in metadata.items() if each not in FILLED_IN},
        "spec": {each: value for each, value in document["spec"].items() if each not in ADDRESSES},
    }


async def raw_rate(plane: Address, stock: list[GPUUnit], model: UnitDocuments) -> float:
    """Return how many units a second get their Deployment by the same writes."""
    made_at: list[float] = []

    async def write(connection: Connection, each: GPUUnit) -> None:
        name = f"raw-{each.metadata.name}"
        claim = pair(RAW_PLACE, each, name)
        made_at.append(await RawUnit(claim=claim, name=name, model=model).write(connection))

    async with connections(plane, UNITS_AT_ONCE) as opened:
        begun = time.perf_counter()
        await spread(opened, stock, write)
    return len(made_at) / (max(made_at) - begun)


async def measured(plane: ControlPlane) -> list[tuple[Moments, float]]:
    """Return the moments of each burst, and the rate of the raw writes beside it."""
    address, rounds = address_of(plane), []
    async with (
        role(plane.kubeconfig, "manager", PLACE),
        replica(plane.kubeconfig, PLACE) as api,
    ):
        for number in range(ROUNDS):
            spec_name = f"g{number}"
            await seed(api, spec_name, UNITS_AT_ONCE)
            await eventually(
                lambda: is_stocked(plane, UNITS_AT_ONCE), within_seconds=SETTLING_SECONDS
            )
            await health(api, "readyStockCount", least=UNITS_AT_ONCE)
            if not number:
                await leaders_first_minute()
            moments = await burst(address, api, spec_name)
            await eventually(lambda: is_stocked(plane, 0), within_seconds=SETTLING_SECONDS)
            async with connections(address, WRITERS) as writers:
                stock = await add_stock(writers, RAW_PLACE, spec_name, UNITS_AT_ONCE)
            model = documents_of(plane, next(iter(moments.asked)))
            rounds.append((moments, await raw_rate(address, stock, model)))
    return rounds


def rows() -> Iterator[Row]:
    with prepared_plane(PLACE, RAW_PLACE) as plane:
        rounds = asyncio.run(measured(plane))
    moments = [each for each, _ in rounds]
    title = f"burst of {UNITS_AT_ONCE}"
    first = median(min(each.running.values()) - each.begun for each in moments)
    yield Row(name=f"{title}: first container runs", value=first, unit="s")
    late = median(min(each.ready.values()) - min(each.running.values()) for each in moments)
    name = f"{title}: first Ready after the first container runs"
    yield Row(name=name, value=late, unit="s", at_most=0.5)
    hundredths = [quantiles(each.ready_seconds, n=100) for each in moments]
    p50 = median(each[49] for each in hundredths)
    yield Row(name=f"{title}: POST to Ready, p50", value=p50, unit="s")
    p99 = median(each[98] for each in hundredths)
    yield Row(name=f"{title}: POST to Ready, p99", value=p99, unit="s")
    shares = [each[49] / one.whole_seconds for each, one in zip(hundredths, moments, strict=True)]
    name = f"{title}: POST to Ready, p50 ÷ the whole burst"
    yield Row(name=name, value=median(shares), unit="ratio", at_most=0.5)
    rate = median(each.started_rate for each in moments)
    yield Row(name=f"{title}: units started per second", value=rate, unit="1/s")
    share = median(each.started_rate / raw for each, raw in rounds)
    name = f"{title}: units started per second ÷ the same writes raw"
    yield Row(name=name, value=share, unit="ratio", at_least=0.5)


if __name__ == "__main__":
    for row in rows():
        sys.stdout.write(f"{row}\n")
        sys.stdout.flush()
