import asyncio

import pytest

from gpuruntime.concurrency.clock import loop_time

pytestmark = pytest.mark.looptime


async def test_a_sleep_moves_the_clock_by_its_seconds() -> None:
    began_at = loop_time()
    await asyncio.sleep(3600)
    assert loop_time() - began_at == 3600
