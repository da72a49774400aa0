"""A campaign tries each mutation with a few seeds, before it tries any of them with more.

A find counts only if the code without the mutation passes the same seed or test.
"""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Timer
from typing import Final, Protocol

import attrs

from tests.proofs.simulation.mutations.mutation import Mutation
from tests.proofs.simulation.mutations.results import End, Judged, Row, Verdict, read_line

# Most mutations are found by one of the first seeds.
ROUNDS: Final = (range(4), range(4, 20), range(20, 50), range(50, 100))


class NotJudgedError(Exception):
    """The mutation cannot be judged any further, for the reason in `verdict`."""

    def __init__(self, verdict: Verdict, words: str = "") -> None:
        super().__init__(words)
        self.verdict = verdict


class Judge(Protocol):
    def __call__(self, planted: str, seeds: range, test: str) -> Iterator[Judged]:
        """Judge the seeds, or the test; without a mutation if `planted` is empty.

        Raise NotJudgedError if the process fails or the time is up.
        """
        ...


@attrs.frozen(kw_only=True)
class Campaign:
    """Judges mutations round by round; `on_row` receives a row whenever it was tried."""

    judge: Judge
    on_row: Callable[[Row], None]
    processes: int = 1
    # By seed or test, whether the code without a mutation passes it.
    _passed: dict[int | str, bool] = attrs.field(factory=dict, init=False)

    def run(self, mutations: Sequence[Mutation]) -> list[Row]:
        rows = {each: Row(name=each.name, room=each.room, test=each.test) for each in mutations}
        with ThreadPoolExecutor(self.processes) as pool:
            for seeds in ROUNDS:
                left = [each for each, row in rows.items() if row.goes_on]
                tried = pool.map(partial(self._try, rows, seeds), left)
                rows |= dict(zip(left, tried, strict=True))
        return [row.closed() for row in rows.values()]

    def _try(self, rows: Mapping[Mutation, Row], seeds: range, mutation: Mutation) -> Row:
        row = rows[mutation]
        began = time.monotonic() - row.seconds
        try:
            for tried in self._tried(row, seeds):
                row = tried
        except NotJudgedError as error:
            row = row.given_up(error.verdict, str(error))
        row = attrs.evolve(row, seconds=time.monotonic() - began)
        self.on_row(row)
        return row

    def _tried(self, row: Row, seeds: range) -> Iterator[Row]:
        """Yield the row after each seed, and go on after a find that does not count.

        A seed that spins ends the round, because it has cost enough time.
        """
        while seeds:
            for judged in self.judge(row.name, seeds, row.test):
                seeds = range(0) if row.test else seeds[1:]
                row = row.after(judged)
                yield row
            if row.verdict is not Verdict.FOUND or self._passes(row):
                break
            row = row.without_its_find()
            yield row
        if row.test:
            yield row.closed()

    def _passes(self, row: Row) -> bool:
        """Return whether the code without the mutation passes the seed or test that found it."""
        first = row.seed or 0
        by = row.test or first
        if by not in self._passed:
            judged = list(self.judge("", range(first, first + 1), row.test))
            self._passed[by] = [each.end for each in judged] == [End.SOUND]
        return self._passed[by]


@attrs.frozen
class Processes:
    """Judges in separate processes until `ends_at`, a moment of the monotonic clock."""

    ends_at: float

    def judge(self, planted: str, seeds: range, test: str) -> Iterator[Judged]:
        seconds = self.ends_at - time.monotonic()
        if seconds <= 0.0:
            raise NotJudgedError(Verdict.TIME_UP)
        options = [f"--plant={planted}", f"--test={test}", str(seeds.start), str(seeds.stop - 1)]
        words = ""
        with subprocess.Popen(
            [sys.executable, "-m", "tests.proofs.simulation.mutations.judge_process", *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            # Fixes the iteration order of sets of strings, as in every other run.
            env={**os.environ, "PYTHONHASHSEED": "0"},
        ) as process:
            timer = Timer(seconds, process.kill)
            timer.start()
            for line in process.stdout or ():
                words = line.strip() or words
                if judged := read_line(line):
                    yield judged
            process.wait()
            timer.cancel()
        if process.returncode:
            is_late = time.monotonic() >= self.ends_at
            raise (
                NotJudgedError(Verdict.TIME_UP)
                if is_late
                else NotJudgedError(Verdict.BROKEN, words)
            )
