"""The client calls functions through the real API and a real broker."""

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from gpuruntime.client import waiting
from gpuruntime.client.client import Client
from gpuruntime.client.errors import ConflictError, FailedError, NotFoundError
from gpuruntime.models.kinds.invocations import FailureClass, State
from gpuruntime.models.requests.invocations import Invoke
from tests.rooms.api.routes.test_invocations import Site, own, shared, site
from tests.rooms.bus.broker import FUNCTION
from tests.rooms.client.servers import LossyProxy, client_of
from tests.rooms.kube.servers import serving

__all__ = ["own", "shared", "site"]

CALL = Invoke(serverlessRequestID=FUNCTION, payload={"n": None})


@pytest_asyncio.fixture
async def client(site: Site) -> AsyncIterator[Client]:
    """Yield a client that loses the first answer to a POST."""
    api = str(site.api.client.make_url("")).rstrip("/")
    async with (
        serving(LossyProxy(api, method="POST", losses=1)) as there,
        client_of(there) as made,
    ):
        yield made


async def test_a_lost_answer_runs_nothing_twice_and_the_wait_ends_with_the_result(
    site: Site, client: Client
) -> None:
    accepted = (await client.invocations.submit(CALL)).data
    assert accepted.duplicate
    name = accepted.invocationID
    told: list[str] = []
    async with asyncio.TaskGroup() as tasks:
        wait = tasks.create_task(
            waiting.until_succeeded(
                client, FUNCTION, name, tell=lambda view: told.append(view.state)
            )
        )
        await asyncio.sleep(0.5)
        await site.succeed(name, b'{"nothing": null}')
    assert wait.result().body == {"nothing": None}
    assert told == ["queued", "succeeded"]


async def test_a_synchronous_call_gets_its_result_after_a_lost_answer(
    site: Site, client: Client
) -> None:
    async with asyncio.TaskGroup() as tasks:
        call = tasks.create_task(
            client.invocations.call({"serverlessRequestID": FUNCTION, "invocationID": "one"})
        )
        await site.until_queued()
        await site.succeed()
    assert (call.result().data.body, call.result().is_replay) == ({"a": 1}, True)


async def test_an_invocation_that_fails_is_raised_with_its_failure_class(
    site: Site, client: Client
) -> None:
    name = (await client.invocations.submit(CALL)).data.invocationID
    await site.turn(
        name, state=State.FAILED, failureClass=FailureClass.NO_WORKER_TEMPLATE, error="gone"
    )
    with pytest.raises(FailedError) as caught:
        await waiting.until_succeeded(client, FUNCTION, name)
    assert (caught.value.reason, caught.value.message) == ("no_worker_template", "gone")


async def test_an_invocation_is_cancelled_once(client: Client) -> None:
    name = (await client.invocations.submit(CALL)).data.invocationID
    await client.invocations.cancel(FUNCTION, name)
    assert (await client.invocations.get(FUNCTION, name)).data.state == "cancelled"
    with pytest.raises(ConflictError, match="already_finished"):
        await client.invocations.cancel(FUNCTION, name)
    with pytest.raises(NotFoundError, match="invocation_not_found"):
        await client.invocations.cancel(FUNCTION, "never-was")


async def test_functions_and_dead_letters_are_listed(client: Client) -> None:
    (function,) = [each async for each in client.functions.list()]
    assert (function.serverlessRequestID, function.maxWorkers) == (FUNCTION, 10)
    assert [each async for each in client.dead_letters.list(FUNCTION)] == []
    with pytest.raises(NotFoundError, match="dead_letter_not_found"):
        await client.dead_letters.redrive("dl-0")
    with pytest.raises(NotFoundError, match="dead_letter_not_found"):
        await client.dead_letters.discard("dl-0")
