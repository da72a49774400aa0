"""Judge seeds in separate processes; a seed that ends its process does not stop the others."""

import os
import signal
import traceback
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from multiprocessing import Pipe, Process
from multiprocessing.connection import Connection, wait
from typing import Final, TypeAlias

import attrs

from tests.proofs.simulation.checks.verdict import Verdict, check
from tests.proofs.simulation.faults.kinds import PlannedFault

CORES: Final = 2
# Processor seconds for one seed. A run takes a few, and may need an undisturbed run beside it.
MOST_SECONDS: Final = 60.0
NO_END: Final = "does not end"
_STUCK: Final = 99

Case: TypeAlias = tuple[int, tuple[PlannedFault, ...]]
Check: TypeAlias = Callable[[int, tuple[PlannedFault, ...]], Verdict]


@attrs.define
class _Running:
    process: Process
    # The cases that are left, in the order in which they are judged.
    left: deque[Case]


def verdicts(
    series: Sequence[Sequence[Case]],
    *,
    judge: Check = check,
    most_seconds: float = MOST_SECONDS,
) -> Iterator[Verdict]:
    """Judge each series in one process; a seed that ends its process affects no other seed."""
    waiting = deque(deque(cases) for cases in series if cases)
    running: dict[Connection, _Running] = {}
    try:
        while waiting or running:
            while waiting and len(running) < CORES:
                left = waiting.popleft()
                pipe, process = _started_process(tuple(left), judge, most_seconds)
                running[pipe] = _Running(process, left)
            ready = wait(list(running))
            for pipe in [each for each in running if each in ready]:
                yield from _received(pipe, running, waiting)
    finally:
        for each in running.values():
            each.process.kill()


def _started_process(
    cases: tuple[Case, ...], judge: Check, most_seconds: float
) -> tuple[Connection, Process]:
    ours, theirs = Pipe(duplex=False)
    process = Process(target=_judge_cases, args=(cases, judge, most_seconds, theirs))
    process.start()
    theirs.close()
    return ours, process


def _received(
    pipe: Connection, running: dict[Connection, _Running], waiting: deque[deque[Case]]
) -> Iterator[Verdict]:
    series = running[pipe]
    try:
        verdict: Verdict = pipe.recv()
    except EOFError:
        series.process.join()
        del running[pipe]
        pipe.close()
        if series.left:
            yield _verdict_of_lost(series.left.popleft(), series.process.exitcode)
        if series.left:
            waiting.appendleft(series.left)
        return
    series.left.popleft()
    yield verdict


def _verdict_of_lost(case: Case, code: int | None) -> Verdict:
    seed, _ = case
    fault = NO_END if code == _STUCK else f"ended its process with {code}"
    return Verdict(seed, "", (fault,))


def _judge_cases(
    cases: tuple[Case, ...], judge: Check, most_seconds: float, results: Connection
) -> None:
    signal.signal(signal.SIGPROF, lambda *_: os._exit(_STUCK))
    for seed, plan in cases:
        # Virtual time stands still in a loop without a pause, so that processor time is limited.
        signal.setitimer(signal.ITIMER_PROF, most_seconds)
        results.send(_judged(judge, seed, plan))


def _judged(judge: Check, seed: int, plan: tuple[PlannedFault, ...]) -> Verdict:
    try:
        return judge(seed, plan)
    except Exception:  # noqa: BLE001  # whatever it is, it is told with its seed
        return Verdict(seed, "", (f"raises:\n{traceback.format_exc()}",))
