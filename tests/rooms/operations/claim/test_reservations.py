"""Reservations of stock within one process."""

import asyncio

import pytest

from gpuruntime.operations.claim.stock import Reservations

pytestmark = pytest.mark.looptime


async def hold(reservations: Reservations, uid: str, seconds: float, spec: str = "g1") -> None:
    with reservations.hold(spec, uid):
        await asyncio.sleep(seconds)


async def test_a_reservation_lasts_until_its_write_has_ended() -> None:
    reservations = Reservations()
    async with asyncio.TaskGroup() as tasks:
        write = tasks.create_task(hold(reservations, "a", 9))
        await asyncio.sleep(1)
        assert reservations.has("g1", "a")
        assert not reservations.has("g2", "a")
        write.cancel()
    assert not reservations.has("g1", "a")


async def test_settled_waits_for_the_writes_in_flight_and_not_for_later_ones() -> None:
    reservations = Reservations()
    loop = asyncio.get_running_loop()
    started = loop.time()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(hold(reservations, "a", 1))
        tasks.create_task(hold(reservations, "b", 2))
        tasks.create_task(hold(reservations, "c", 9, spec="g2"))
        await asyncio.sleep(0)
        loop.call_later(0.5, lambda: tasks.create_task(hold(reservations, "d", 9)))
        await reservations.settled("g1")
        assert loop.time() - started == pytest.approx(2)


async def test_settled_returns_at_once_if_nothing_is_in_flight() -> None:
    started = asyncio.get_running_loop().time()
    await Reservations().settled("g1")
    assert asyncio.get_running_loop().time() == started
