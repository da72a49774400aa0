"""Waits for a state that comes, for one that fails, and for one that does not come in time."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta

import attrs
import pytest

from gpuruntime.client.errors import (
    BusyError,
    FailedError,
    LostAnswerError,
    NotFoundError,
    NotYetError,
)
from gpuruntime.client.messages import Reply
from gpuruntime.client.progress import Judgement
from gpuruntime.client.waiting import until, until_gone
from tests.row_ids import in_words

pytestmark = pytest.mark.looptime


@attrs.frozen
class Thing:
    number: int
    is_broken: bool = False


MISSING = NotFoundError("no such thing", status=404, code="thing_not_found")
BUSY = BusyError("later", status=503, code="service_unavailable")


def looks(*seen: Thing | Exception) -> Callable[[], Awaitable[Reply[Thing]]]:
    """Return a poll that gives the answers in order, and repeats the last one."""
    left = list(seen)

    async def look() -> Reply[Thing]:
        found = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(found, Exception):
            raise found
        return Reply(data=found)

    return look


def third(thing: Thing) -> Judgement:
    return Judgement(
        is_done=thing.number >= 3,
        is_failed=thing.is_broken,
        reason="Counting",
        message=f"at {thing.number}",
    )


async def waited(*seen: Thing | Exception, told: list[Thing] | None = None) -> Thing:
    tell = told.append if told is not None else None
    return await until(looks(*seen), third, what="thing", timeout_seconds=60, tell=tell)


async def test_a_wait_returns_the_first_view_that_is_done() -> None:
    told: list[Thing] = []
    found = await waited(Thing(1), Thing(1), Thing(2), Thing(3), Thing(9), told=told)
    assert found == Thing(3)
    assert told == [Thing(1), Thing(2), Thing(3)]


async def test_a_state_counts_once_it_has_lasted() -> None:
    left_and_reached_again = (Thing(3), Thing(3), Thing(1), Thing(3))
    look = looks(*left_and_reached_again)
    found = await until(look, third, what="thing", timeout_seconds=60, stable_seconds=5)
    assert found == Thing(3)
    assert 5 < asyncio.get_running_loop().time() < 10
    with pytest.raises(FailedError):
        await until(
            looks(Thing(3), Thing(3), Thing(2, is_broken=True)),
            third,
            what="thing",
            timeout_seconds=60,
            stable_seconds=5,
        )


async def test_a_unit_that_was_unready_between_two_polls_has_to_last_anew() -> None:
    def judge(thing: Thing) -> Judgement:
        since = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=thing.number)
        return Judgement(is_done=True, since=since)

    look = looks(*[Thing(1)] * 6, Thing(2))
    await until(look, judge, what="thing", timeout_seconds=60, stable_seconds=3)
    assert asyncio.get_running_loop().time() > 4


async def test_a_failure_is_raised_with_its_reason_and_message() -> None:
    with pytest.raises(FailedError) as caught:
        await waited(Thing(1), Thing(2, is_broken=True))
    assert (caught.value.reason, caught.value.message) == ("Counting", "at 2")
    assert str(caught.value) == "thing: Counting: at 2"


async def test_a_wait_that_times_out_says_how_far_it_came() -> None:
    with pytest.raises(NotYetError, match="not done after 60 s: Counting: at 2"):
        await waited(Thing(1), Thing(2))
    assert asyncio.get_running_loop().time() == pytest.approx(60)


async def test_a_server_that_is_away_for_a_while_does_not_end_a_wait() -> None:
    lost = LostAnswerError("no answer")
    assert await waited(Thing(1), BUSY, lost, Thing(3)) == Thing(3)
    with pytest.raises(NotYetError, match="later"):
        await waited(Thing(1), BUSY)


@pytest.mark.parametrize("first", [BUSY, MISSING], ids=in_words)
async def test_an_error_of_the_first_poll_is_raised_at_once(first: Exception) -> None:
    with pytest.raises(type(first)):
        await waited(first)
    assert asyncio.get_running_loop().time() == 0


async def test_an_object_deleted_during_the_wait_is_not_found() -> None:
    with pytest.raises(NotFoundError):
        await waited(Thing(1), MISSING)


async def test_a_poll_that_hangs_ends_with_the_timeout() -> None:
    async def look() -> Reply[Thing]:
        await asyncio.sleep(3600)
        return Reply(data=Thing(3))

    with pytest.raises(NotYetError, match="the server has not answered"):
        await until(look, third, what="thing", timeout_seconds=5)


@pytest.mark.parametrize("last", [MISSING, Thing(2)], ids=["not found", "replaced"])
async def test_an_object_is_gone_if_it_is_not_found_or_replaced(last: Thing | Exception) -> None:
    looked = looks(Thing(1), Thing(1), last)
    await until_gone(looked, lambda thing: thing.number, what="thing", timeout_seconds=60)


async def test_an_object_that_stays_is_reported_as_still_there() -> None:
    with pytest.raises(NotYetError, match="still exists"):
        await until_gone(
            looks(Thing(1)), lambda thing: thing.number, what="thing", timeout_seconds=60
        )
