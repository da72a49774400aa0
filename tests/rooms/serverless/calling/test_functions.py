"""Functions: found by name, and listed by name with their queue and status."""

from collections.abc import AsyncIterator
from itertools import count

import pytest
import pytest_asyncio

from gpuruntime.api.views.serverless import function_view
from gpuruntime.framework.calls import Call, CallError
from gpuruntime.models.kinds.invocations import State
from gpuruntime.models.kinds.units import GPU_UNITS
from gpuruntime.operations.errors import ClusterUnavailableError
from gpuruntime.operations.lookup.scopes import Scope
from gpuruntime.serverless.errors import FunctionNotFoundError, QueueAwayError
from tests.eventually import equals, eventually
from tests.faults import DROPPED
from tests.rooms.bus.broker import FUNCTION, Broker
from tests.rooms.operations.cluster import INSTANCE
from tests.rooms.serverless.calling.ingress import Site, asked, declare_function, site
from tests.rooms.worker.conftest import ACK_WAIT_SECONDS
from tests.rooms.worker.workers import Ledger, ended, until_empty, working

PREFIXES = count(1)


@pytest_asyncio.fixture
async def api(shared: Broker) -> AsyncIterator[Site]:
    async with site(shared.url, f"f{next(PREFIXES)}", ack_wait_seconds=ACK_WAIT_SECONDS) as made:
        yield made


async def names_of(api: Site, *, limit: int = 100, after: str = "") -> list[str]:
    page = await api.ingress.functions.page(limit=limit, after=after)
    return [function.declared.requestID for function in page.functions]


async def test_a_cached_function_is_found_without_the_cluster(api: Site) -> None:
    declared = await api.ingress.functions.find(FUNCTION)
    assert declared.function.requestID == FUNCTION
    assert api.replica.transport.sent == []


async def test_a_worker_declares_no_function(api: Site) -> None:
    declare_function(api.cluster, "lost", workerOf={"name": "gone", "uid": "1"})
    await eventually(lambda: len(api.replica.units.store), equals(2))
    with pytest.raises(FunctionNotFoundError):
        await api.ingress.functions.find("lost")
    assert await names_of(api) == [FUNCTION]


async def test_an_unknown_function_costs_one_small_list(api: Site) -> None:
    with pytest.raises(FunctionNotFoundError):
        await api.ingress.functions.find("-nobody")
    (sent,) = api.replica.transport.sent
    assert "labelSelector" in str(sent)


async def test_an_unreachable_cluster_does_not_prove_that_a_function_is_missing(api: Site) -> None:
    api.replica.transport.on("GET", "gpuunits", DROPPED, times=9)
    with pytest.raises(ClusterUnavailableError):
        await api.ingress.functions.find("nobody")


async def test_queued_and_running_invocations_are_reported_for_each_function(api: Site) -> None:
    ledger = Ledger()
    ledger.gate.clear()
    async with working(api.bus, ledger.handle):
        for name in ("one", "two", "three"):
            await api.ingress.acceptance.accept(asked(name))
        await eventually(lambda: ledger.starts)
        page = await api.ingress.functions.page(limit=10, after="")
        ledger.gate.set()
        for name in ("one", "two", "three"):
            await ended(api.bus, name)
    (function,) = page.functions
    assert (function.queued, function.running) == (2, 1)
    assert 0 < function.oldest_wait_seconds < 60


async def test_an_invocation_that_waits_for_its_next_attempt_is_queued(api: Site) -> None:
    async def fail(_: Call) -> object:
        raise CallError("not yet")

    async with working(api.bus, fail):
        await api.ingress.acceptance.accept(asked())
        await eventually(lambda: has_failed(api))
        (function,) = (await api.ingress.functions.page(limit=10, after="")).functions
    assert (function.queued, function.running) == (1, 0)
    assert function.oldest_wait_seconds > 0


async def has_failed(api: Site) -> bool:
    stored = await api.bus.records.read(FUNCTION, "one")
    assert stored is not None
    return stored.record.state is State.QUEUED and stored.record.attempt == 1


async def test_running_invocations_are_counted_however_many_there_are(api: Site) -> None:
    ledger = Ledger()
    ledger.gate.clear()
    # Only workers that are units count, and this is the only one.
    async with working(api.bus, ledger.handle, name="unit-of-echo", concurrency=20):
        for number in range(20):
            await api.ingress.acceptance.accept(asked(f"n{number}"))
        await eventually(lambda: running(api), equals(20))
        ledger.gate.set()
        await until_empty(api.bus)
    assert await running(api) == 0


async def running(api: Site) -> int:
    (function,) = (await api.ingress.functions.page(limit=10, after="")).functions
    return function.running


async def test_workers_are_counted_as_in_the_status(api: Site) -> None:
    path = GPU_UNITS.path(namespace=INSTANCE, name="unit-of-echo", subresource="status")
    status = {"desiredWorkers": 4, "readyWorkers": 3, "busyWorkers": 2, "drainingWorkers": 1}
    api.cluster.call("PATCH", path, {"status": {"serverless": status}})
    (unit,) = api.replica.units.store.values()
    await eventually(lambda: api.replica.units.store.get(unit.metadata.key) != unit)
    (function,) = (await api.ingress.functions.page(limit=1, after="")).functions
    workers = function_view(function).workers
    assert (workers.desired, workers.ready, workers.busy, workers.draining) == (4, 3, 2, 1)


async def test_pages_are_sorted_by_name_and_show_only_owners(api: Site) -> None:
    for name in ("b", "a", "_c"):
        declare_function(api.cluster, name)
    again = {
        "apiVersion": GPU_UNITS.api_version,
        "kind": GPU_UNITS.kind,
        "metadata": {"name": "younger"},
        "spec": {"specName": "g1.1", "image": "x", "serverless": {"requestID": "a"}},
    }
    api.cluster.call("POST", GPU_UNITS.path(namespace=INSTANCE), again)
    await eventually(lambda: len(api.replica.units.store), equals(5))
    assert await names_of(api) == ["_c", "a", "b", FUNCTION]
    first = await api.ingress.functions.page(limit=2, after="")
    assert first.next == "a"
    assert await names_of(api, after=first.next) == ["b", FUNCTION]


async def test_functions_are_not_listed_without_a_broker(own: Broker) -> None:
    async with site(own.url, "nobroker") as api:
        own.kill()
        await eventually(lambda: api.ingress.queue.problem)
        with pytest.raises(QueueAwayError):
            await api.ingress.functions.page(limit=10, after="")


async def test_a_function_is_read_by_its_name(api: Site) -> None:
    await api.ingress.acceptance.accept(asked("one"))
    found = await api.ingress.functions.get(FUNCTION)
    assert (found.declared.requestID, found.queued) == (FUNCTION, 1)
    with pytest.raises(FunctionNotFoundError):
        await api.ingress.functions.get("nobody")
    with pytest.raises(FunctionNotFoundError):
        await api.ingress.functions.get(FUNCTION, Scope(frozenset({"stranger"})))
