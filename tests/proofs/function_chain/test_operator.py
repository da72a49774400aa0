"""An operator changes a stream of the broker, and a queue becomes full."""

import asyncio
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from tests.eventually import eventually
from tests.proofs.function_chain.bus import Onlooker, insist, onlooker
from tests.proofs.function_chain.calls import INVOCATIONS, Ask, assert_right, calls, payload
from tests.proofs.function_chain.chain import Chain, chain
from tests.proofs.real_cluster.product import request

pytestmark = pytest.mark.serverless

MOST = 20
FUNCTIONS = 1_001
UNITS = "/apis/runtime.lokiwager.io/v1alpha1/namespaces/runtime-instance/gpuunits"


@pytest.fixture(scope="module")
def made() -> Iterator[Chain]:
    with chain("api-1", "manager-1", "activator-1", "results-1") as started:
        yield started


async def test_a_queue_that_an_operator_shortens_stays_short_and_drops_nothing(
    made: Chain,
) -> None:
    rng = Random(1)
    made.declare("full", maxWorkers=2)
    assert made.caller.put("/gpu-units/full", {"suspended": True}).status == 200
    async with (
        onlooker(made.broker.url) as seen_by,
        calls(lambda: made.addresses, rng) as caller,
    ):
        await shorten(seen_by)
        for role in tuple(made.roles):
            await asyncio.to_thread(made.restart, role)
        assert (await settings_of(seen_by))["max_msgs_per_subject"] == MOST
        wanted = [
            Ask(function="full", name=f"i{number}", payload=payload(number, rng))
            for number in range(MOST + 10)
        ]
        replies = [await caller.once("POST", INVOCATIONS, ask.body) for ask in wanted]
        assert [reply.status for reply in replies] == [202] * MOST + [429] * 10
        refused = wanted[-1].name
        path = f"{INVOCATIONS}/{refused}?serverlessRequestID=full"
        assert (await caller.once("GET", path)).status == 404
        assert made.caller.put("/gpu-units/full", {"suspended": False}).status == 200
        for ask in wanted:
            assert_right(ask, await caller.call(ask))
    assert not made.started_twice()


async def test_there_may_be_more_functions_than_a_stream_has_consumers_by_default(
    made: Chain,
) -> None:
    rng = Random(2)
    made.declare("many-0", maxWorkers=1)
    async with (
        onlooker(made.broker.url) as seen_by,
        calls(lambda: made.addresses, rng) as caller,
    ):
        await asyncio.to_thread(declare_more, made, "many-0", FUNCTIONS - 1)
        stream = seen_by.names.invocations
        await eventually(
            lambda: seen_by.consumers_of(stream),
            lambda count: count >= FUNCTIONS,
            within_seconds=240,
            poll_seconds=1,
        )
        ask = Ask(function=f"many-{FUNCTIONS - 1}", name="last", payload=payload(1, rng))
        assert_right(ask, await caller.call(ask))


async def shorten(seen_by: Onlooker) -> None:
    settings = {**await settings_of(seen_by), "max_msgs_per_subject": MOST}
    await insist(
        lambda: seen_by.jetstream.call(f"STREAM.UPDATE.{seen_by.names.invocations}", settings)
    )


async def settings_of(seen_by: Onlooker) -> dict[str, Any]:
    info: Any = await insist(
        lambda: seen_by.jetstream.call(f"STREAM.INFO.{seen_by.names.invocations}")
    )
    return dict(info["config"])


def declare_more(made: Chain, model: str, count: int) -> None:
    """Create copies of a declaring unit under other names, as kubectl would."""
    url = made.server + UNITS
    found = request("GET", f"{url}/{model}").document
    for number in range(1, count + 1):
        name = f"many-{number}"
        spec = {
            **found["spec"],
            "operationID": f"function-{name}",
            "serverless": {**found["spec"]["serverless"], "requestID": name},
        }
        metadata = {"name": name, "namespace": found["metadata"]["namespace"]}
        body = {
            "apiVersion": found["apiVersion"],
            "kind": found["kind"],
            "metadata": metadata,
            "spec": spec,
        }
        answer = request("POST", url, body)
        assert answer.status == 201, answer.document
