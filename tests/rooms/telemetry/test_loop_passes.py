"""A pass of the loop is timed from one select to the next."""

import asyncio
from collections.abc import Callable

from gpuruntime.telemetry.loop_passes import LongestPass, MeasuredLoop


class Processor:
    """A clock of the processor time that the process has used so far."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds

    def work(self, seconds: float) -> None:
        self.seconds += seconds


def run(story: Callable[[MeasuredLoop, Processor], None]) -> None:
    processor = Processor()

    async def main() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, MeasuredLoop)
        story(loop, processor)
        for _ in range(5):
            await asyncio.sleep(0)

    with asyncio.Runner(loop_factory=lambda: MeasuredLoop(processor)) as runner:
        runner.run(main())


def test_the_work_of_one_pass_adds_up_and_other_passes_do_not_count() -> None:
    found: list[LongestPass] = []

    def story(loop: MeasuredLoop, processor: Processor) -> None:
        found.append(loop.longest_pass())
        loop.call_soon(processor.work, 0.25)
        loop.call_soon(processor.work, 0.5)
        loop.call_soon(loop.call_soon, processor.work, 0.625)

    run(story)
    assert found[0].take() == 0.75
    assert found[0].take() == 0.0


def test_each_listener_takes_the_longest_pass_for_itself() -> None:
    found: list[float] = []

    def story(loop: MeasuredLoop, processor: Processor) -> None:
        first, second = loop.longest_pass(), loop.longest_pass()
        loop.call_soon(processor.work, 0.5)
        loop.call_soon(loop.call_soon, lambda: found.append(first.take()))
        loop.call_soon(loop.call_soon, lambda: found.append(second.take()))

    run(story)
    assert found == [0.5, 0.5]


def test_a_waiting_loop_is_not_at_work() -> None:
    longest: list[float] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, MeasuredLoop)
        passes = loop.longest_pass()
        await asyncio.sleep(0.2)
        longest.append(passes.take())

    with asyncio.Runner(loop_factory=MeasuredLoop) as runner:
        runner.run(main())
    assert 0 < longest[0] < 0.1
