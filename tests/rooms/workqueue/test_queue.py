"""The queue's contract: no change is missed, and no key is processed twice at once."""

import asyncio
import random
from collections import Counter

import pytest

from gpuruntime.workqueue.queue import MOST_PASSED_OVER, Lane, QueueShutDownError, WorkQueue

pytestmark = pytest.mark.looptime(idle_timeout=5)


async def is_empty(queue: WorkQueue[str]) -> bool:
    try:
        async with asyncio.timeout(0.001):
            await queue.get()
    except TimeoutError:
        return True
    return False


async def test_a_key_added_many_times_is_handed_out_once() -> None:
    queue: WorkQueue[str] = WorkQueue("test")
    for _ in range(5):
        queue.add("a")

    assert await queue.get() == "a"
    queue.done("a")
    assert await is_empty(queue)


async def test_keys_are_handed_out_in_the_order_they_were_added() -> None:
    queue: WorkQueue[str] = WorkQueue("test")
    for key in "abca":
        queue.add(key)

    assert [await queue.get() for _ in range(3)] == ["a", "b", "c"]


async def test_a_key_added_while_in_progress_comes_back_after_done() -> None:
    queue: WorkQueue[str] = WorkQueue("test")
    queue.add("a")
    await queue.get()

    queue.add("a")
    queue.add("a")

    assert await is_empty(queue)
    queue.done("a")
    assert await queue.get() == "a"
    queue.done("a")
    assert await is_empty(queue)


async def test_a_remainder_left_by_rounding_passes_too() -> None:
    queue: WorkQueue[str] = WorkQueue("test")
    loop = asyncio.get_running_loop()
    await asyncio.sleep(2.014)
    before = loop.time()

    queue.add_after("a", 4.4e-16)

    assert await queue.get() == "a"
    assert loop.time() > before


async def test_new_keys_are_handed_out_before_the_backlog() -> None:
    queue: WorkQueue[str] = WorkQueue("test")
    queue.add("old", lane=Lane.BACKLOG)
    queue.add("older", lane=Lane.BACKLOG)
    queue.add("new")

    assert [await queue.get() for _ in range(3)] == ["new", "old", "older"]


async def test_a_backlog_key_that_changes_is_handed_out_before_the_rest() -> None:
    queue: WorkQueue[str] = WorkQueue("test")
    for key in "abc":
        queue.add(key, lane=Lane.BACKLOG)

    queue.add("b")

    assert [await queue.get() for _ in range(3)] == ["b", "a", "c"]


async def test_a_new_key_is_not_moved_to_the_backlog() -> None:
    queue: WorkQueue[str] = WorkQueue("test")
    queue.add("a")
    queue.add("b", lane=Lane.BACKLOG)
    queue.add("a", lane=Lane.BACKLOG)

    assert [await queue.get() for _ in range(2)] == ["a", "b"]


async def test_keys_that_have_begun_are_handed_out_before_new_ones() -> None:
    queue: WorkQueue[str] = WorkQueue("test")
    for key in "abc":
        queue.add(key)
    queue.add("begun", lane=Lane.BEGUN)

    assert [await queue.get() for _ in range(4)] == ["begun", "a", "b", "c"]


@pytest.mark.parametrize("first", [Lane.NEW, Lane.BACKLOG], ids=["new", "backlog"])
async def test_a_waiting_key_whose_work_began_moves_to_the_front(first: Lane) -> None:
    queue: WorkQueue[str] = WorkQueue("test")
    for key in "abc":
        queue.add(key, lane=first)

    queue.add("c", lane=Lane.BEGUN)

    assert [await queue.get() for _ in range(3)] == ["c", "a", "b"]


@pytest.mark.parametrize("lane", Lane, ids=lambda lane: lane.name.lower())
async def test_a_key_that_changes_in_progress_waits_in_the_lane_of_the_change(lane: Lane) -> None:
    queue: WorkQueue[str] = WorkQueue("test")
    queue.add("a")
    await queue.get()
    queue.add("a", lane=Lane.BACKLOG)
    queue.add("a", lane=lane)
    for held in Lane:
        queue.add(held.name, lane=held)
    queue.done("a")

    order = [await queue.get() for _ in range(4)]
    assert order.index("a") == order.index(lane.name) + 1


async def test_no_lane_starves_while_keys_that_have_begun_never_end() -> None:
    queue: WorkQueue[str] = WorkQueue("test")
    queue.add("new")
    queue.add("old", lane=Lane.BACKLOG)
    order = []
    for step in range(3 * MOST_PASSED_OVER):
        queue.add(f"begun {step}", lane=Lane.BEGUN)
        order.append(await queue.get())

    assert order.index("new") == MOST_PASSED_OVER
    assert order.index("old") == MOST_PASSED_OVER + 1


async def test_a_delayed_key_is_handed_out_at_its_time() -> None:
    queue: WorkQueue[str] = WorkQueue("test")
    loop = asyncio.get_running_loop()
    start = loop.time()
    queue.add_after("a", 30)
    queue.add_after("a", 10)
    queue.add_after("a", 20)

    await queue.get()

    assert loop.time() - start == pytest.approx(10)


@pytest.mark.parametrize("seconds", [0, -1])
async def test_a_delay_of_zero_is_an_add(seconds: float) -> None:
    queue: WorkQueue[str] = WorkQueue("test")
    queue.add_after("a", seconds)

    assert queue.depth == 1


async def test_a_hand_out_ends_all_earlier_delays() -> None:
    queue: WorkQueue[str] = WorkQueue("test")
    queue.add_after("a", 10)
    queue.add("a")
    queue.done(await queue.get())

    await asyncio.sleep(60)

    assert queue.depth == 0


async def test_a_delay_set_while_in_progress_holds() -> None:
    queue: WorkQueue[str] = WorkQueue("test")
    queue.add("a")
    await queue.get()
    queue.add_after("a", 10)
    queue.done("a")

    await asyncio.sleep(11)

    assert await queue.get() == "a"


async def test_a_delay_that_ends_while_in_progress_waits_for_done() -> None:
    queue: WorkQueue[str] = WorkQueue("test")
    queue.add("a")
    await queue.get()
    queue.add_after("a", 10)
    await asyncio.sleep(11)

    assert await is_empty(queue)
    queue.done("a")
    assert await queue.get() == "a"


async def test_a_failing_key_waits_its_back_off_until_it_is_forgotten() -> None:
    queue: WorkQueue[str] = WorkQueue("test")

    assert [queue.add_rate_limited("a") for _ in range(3)] == [0.005, 0.01, 0.02]
    queue.forget("a")
    assert queue.add_rate_limited("a") == 0.005


async def test_a_back_off_is_at_least_what_the_server_asks_for() -> None:
    queue: WorkQueue[str] = WorkQueue("test")

    assert queue.add_rate_limited("a", at_least_seconds=7) == 7
    assert await is_empty(queue)
    await asyncio.sleep(7)
    assert queue.depth == 1


async def test_done_without_get_is_an_error() -> None:
    queue: WorkQueue[str] = WorkQueue("test")
    queue.add("a")

    with pytest.raises(KeyError):
        queue.done("a")


async def test_shut_down_ends_waiting_getters() -> None:
    queue: WorkQueue[str] = WorkQueue("test")
    async with asyncio.TaskGroup() as tasks:
        waiting = [tasks.create_task(ends_with_the_queue(queue)) for _ in range(3)]
        await asyncio.sleep(1)
        queue.shut_down()

    assert all(task.result() for task in waiting)


async def ends_with_the_queue(queue: WorkQueue[str]) -> bool:
    try:
        await queue.get()
    except QueueShutDownError:
        return True
    return False


async def test_no_key_is_handed_out_or_comes_due_after_shut_down() -> None:
    queue: WorkQueue[str] = WorkQueue("test")
    queue.add_after("later", 5)
    queue.add("in hand")
    queue.add("next")
    in_hand = await queue.get()
    queue.add(in_hand)

    queue.shut_down()
    assert len(queue._delays) == 0
    queue.add("late")
    queue.add_after("late", 1)
    queue.done(in_hand)
    await asyncio.sleep(10)

    assert queue.depth == 0
    with pytest.raises(QueueShutDownError, match="queue test is shut down"):
        await queue.get()


async def test_a_getter_cancelled_before_it_is_woken_takes_nothing() -> None:
    queue: WorkQueue[str] = WorkQueue("test")
    async with asyncio.TaskGroup() as tasks:
        first = tasks.create_task(queue.get())
        second = tasks.create_task(queue.get())
        await asyncio.sleep(1)
        first.cancel()
        queue.add("a")

    assert second.result() == "a"


async def test_a_getter_cancelled_after_it_was_woken_passes_the_key_on() -> None:
    queue: WorkQueue[str] = WorkQueue("test")
    async with asyncio.TaskGroup() as tasks:
        first = tasks.create_task(queue.get())
        second = tasks.create_task(queue.get())
        await asyncio.sleep(1)
        queue.add("a")
        first.cancel()

    assert second.result() == "a"


async def test_workers_that_start_and_end_lose_no_key_and_never_share_one(
    rng: random.Random,
) -> None:
    queue: WorkQueue[str] = WorkQueue("test")
    served: Counter[str] = Counter()
    in_hand: set[str] = set()

    async def work() -> None:
        while True:
            key = await queue.get()
            assert key not in in_hand
            in_hand.add(key)
            try:
                await asyncio.sleep(rng.random() / 100)
                served[key] += 1
            finally:
                in_hand.remove(key)
                queue.done(key)

    async with asyncio.TaskGroup() as tasks:
        workers = [tasks.create_task(work()) for _ in range(4)]
        for step in range(2_000):
            queue.add(str(step % 50))
            if rng.random() < 0.1:
                workers.pop(rng.randrange(4)).cancel()
                workers.append(tasks.create_task(work()))
            if rng.random() < 0.5:
                await asyncio.sleep(rng.random() / 100)
        await asyncio.sleep(60)
        assert queue.depth == 0
        for worker in workers:
            worker.cancel()

    assert set(served) == {str(number) for number in range(50)}


async def test_the_age_of_a_queue_is_the_age_of_its_next_key() -> None:
    queue: WorkQueue[str] = WorkQueue("test")
    assert queue.oldest_seconds == 0
    queue.add("late", lane=Lane.BACKLOG)
    await asyncio.sleep(2)
    queue.add("a")
    queue.add("b")
    await asyncio.sleep(1)
    assert queue.oldest_seconds == 3
    queue.add("late")
    assert await queue.get() == "a"
    assert queue.oldest_seconds == 1
    assert await queue.get() == "b"
    assert queue.oldest_seconds == 3


async def test_a_key_in_progress_is_as_old_as_its_last_change() -> None:
    queue: WorkQueue[str] = WorkQueue("test")
    queue.add("a")
    await asyncio.sleep(5)
    await queue.get()
    assert queue.oldest_seconds == 0
    queue.add("a")
    await asyncio.sleep(1)
    queue.done("a")
    assert queue.oldest_seconds == 1
