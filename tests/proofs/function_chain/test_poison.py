"""A function that answers badly in many ways, and a neighbour that is not affected."""

import asyncio
import time
from collections.abc import Iterator
from random import Random
from statistics import median
from typing import Any

import pytest

from tests.proofs.function_chain import poison
from tests.proofs.function_chain.calls import Ask, Calls, assert_right, calls, payload
from tests.proofs.function_chain.chain import Chain, chain

pytestmark = pytest.mark.serverless

ATTEMPTS = 2
# The expected end of each: its state, its class, and its number of attempts.
EXHAUSTED = ("dead_lettered", "retry_exhausted", ATTEMPTS)
ENDS = {
    "good": ("succeeded", None, 1),
    "garbage": EXHAUSTED,
    "no_json": EXHAUSTED,
    "no_answer": EXHAUSTED,
    "close": EXHAUSTED,
    "cut_off": EXHAUSTED,
    "never": EXHAUSTED,
    "status_500": EXHAUSTED,
    "told_500": EXHAUSTED,
    "long": EXHAUSTED,
    "wrong_type": EXHAUSTED,
    # The framework rejects the call itself, so a retry would not help.
    "status_400": ("dead_lettered", "framework_error", 1),
}
# If only one attempt is allowed, its own class is reported.
CLASSES = {wish: "framework_error" for wish in ENDS if wish != "good"} | {
    "never": "framework_timeout"
}
COPIES = 4


@pytest.fixture(scope="module")
def made() -> Iterator[Chain]:
    with chain("api-1", "manager-1", "activator-1", "results-1") as started:
        for name, attempts in (("poison", ATTEMPTS), ("once", 1)):
            started.declare(
                name,
                program=poison.__file__,
                maxWorkers=1,
                concurrency=8,
                maxAttempts=attempts,
                timeoutSeconds=5,
            )
        started.declare("good", minAvailableCount=1, maxWorkers=1, concurrency=4)
        started.until_ready("good", 1)
        yield started


async def test_each_bad_answer_has_its_own_end_and_the_function_continues(
    made: Chain,
) -> None:
    asks = [
        Ask(function="poison", name=f"{wish}-{copy}", payload=wish)
        for copy in range(COPIES)
        for wish in ENDS
    ]
    views, slowest = await beside_another(made, asks)
    for ask, view in zip(asks, views, strict=True):
        found = (view["state"], view["failureClass"], view["attempt"])
        assert found == ENDS[ask.payload], view
        assert bool(view["error"]) is (ask.payload != "good")
    started = made.started()
    for ask in asks:
        attempts = ENDS[ask.payload][2]
        assert [started[(ask.name, each)] for each in range(1, 4)] == [
            int(each <= attempts) for each in range(1, 4)
        ], ask.name
    assert letters(made, "poison") == {ask.name for ask in asks if ask.payload != "good"}
    assert slowest < 4, "the neighbour waited for one that never answers"


async def test_a_failure_of_the_only_attempt_has_its_own_class(made: Chain) -> None:
    asks = [Ask(function="once", name=wish, payload=wish) for wish in CLASSES]
    views, _ = await beside_another(made, asks)
    assert {
        ask.name: view["failureClass"] for ask, view in zip(asks, views, strict=True)
    } == CLASSES
    assert letters(made, "once") == set(CLASSES)


async def test_a_redriven_letter_runs_again_with_all_its_attempts(made: Chain) -> None:
    ask = Ask(function="poison", name="again", payload="status_500")
    async with calls(lambda: made.addresses, Random(5)) as caller:
        await caller.call(ask)
        [letter] = [
            each for each in dead_letters(made, "poison") if each["invocationID"] == "again"
        ]
        path = f"/api/v1/serverless/dead-letters/{letter['deadLetterID']}/redrive"
        assert (await caller.once("POST", path)).status == 202
        view = await caller.ended("poison", "again")
    assert (view["series"], view["attempt"], view["state"]) == (2, ATTEMPTS, "dead_lettered")
    started = made.started()
    assert [started[("again", each)] for each in (1, 2, 3)] == [2, 2, 0], "once in each series"


async def beside_another(made: Chain, asks: list[Ask]) -> tuple[list[Any], float]:
    """Return the ends, and the slowest answer of the neighbour meanwhile."""
    rng = Random(5)
    async with calls(lambda: made.addresses, rng) as caller:
        over = asyncio.Event()
        async with asyncio.TaskGroup() as tasks:
            neighbour = tasks.create_task(keep_calling(caller, rng, over))
            ends = [tasks.create_task(caller.call(ask)) for ask in asks]
            for end in ends:
                await end
            over.set()
    seconds = neighbour.result()
    assert median(seconds) < 0.5
    return [end.result() for end in ends], max(seconds)


async def keep_calling(caller: Calls, rng: Random, over: asyncio.Event) -> list[float]:
    seconds = []
    while not over.is_set():
        number = rng.randrange(2**31)
        ask = Ask(
            function="good",
            name=f"n{number}",
            payload={**payload(number, rng), "failures": 0, "long": 0},
            mode="sync",
        )
        began_at = time.monotonic()
        assert_right(ask, await caller.call(ask))
        seconds.append(time.monotonic() - began_at)
        await asyncio.sleep(0.05)
    return seconds


def dead_letters(made: Chain, function: str) -> list[Any]:
    found = made.caller.get(
        f"/serverless/dead-letters?serverlessRequestID={function}&limit=200"
    ).data
    assert isinstance(found, list)
    return found


def letters(made: Chain, function: str) -> set[str]:
    return {each["invocationID"] for each in dead_letters(made, function)}
