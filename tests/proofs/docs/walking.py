"""Runs the shell blocks of a page in their order, and holds the answers to what the page shows.

A block `sh` is run, and a block `json` or `text` behind it is what it answers. Marks: `again` is
asked until the answer is the one shown, as a reader would; `aside` goes on while the rest of the
page is walked, as in another terminal. `node` is run by the walk over a real node alone, and that
walk runs nothing else; `cluster` wants a real cluster, and `start` installs or starts what the
test has started: of these only the syntax is looked at. Blocks that only set variables hold for
all that follow on their page.
"""

import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import attrs

from tests.proofs.docs.answers import differences
from tests.proofs.docs.pages import Block, Page

SHELL = "sh"
ANSWERS = ("json", "text")
AGAIN, ASIDE, CLUSTER, NODE, START = "again", "aside", "cluster", "node", "start"
MARKS = {AGAIN, ASIDE, CLUSTER, NODE, START}
PAUSE_SECONDS = 0.2
DEFINITIONS = re.compile(r"(?:[a-z_]+=[^\n]*(?:\n|$)|\s+|#[^\n]*(?:\n|$))+")


@attrs.frozen(kw_only=True)
class Step:
    block: Block
    answer: Block | None


@attrs.frozen(kw_only=True)
class Walk:
    """`places` are texts of the page, and what is in their place here.

    With a mark, only what bears it is walked. One run of a block has its time, and what is asked
    again has patience.
    """

    folder: Path
    places: Mapping[str, str] = attrs.field(factory=dict)
    environment: Mapping[str, str] = attrs.field(factory=dict)
    mark: str = ""
    block_seconds: float = 90.0
    patience_seconds: float = 90.0

    def faults(self, page: Page) -> list[str]:
        """Of the first step that goes wrong: the next ones build upon it."""
        definitions = ""
        with ExitStack() as aside:
            for step in steps_of(page, self.mark):
                if DEFINITIONS.fullmatch(step.block.text):
                    definitions += step.block.text + "\n"
                elif ASIDE in step.block.marks:
                    aside.enter_context(self._running(step, definitions))
                elif found := self._carry_out(step, definitions):
                    return [f"{step.block.place}: {each}" for each in found]
        return []

    def _carry_out(self, step: Step, definitions: str) -> list[str]:
        deadline = time.monotonic() + self.patience_seconds
        while True:
            found = self._faults_of(step, definitions)
            if not found or AGAIN not in step.block.marks or time.monotonic() > deadline:
                return found
            time.sleep(PAUSE_SECONDS)

    def _faults_of(self, step: Step, definitions: str) -> list[str]:
        with self._running(step, definitions) as running:
            try:
                output, complaints = running.communicate(timeout=self.block_seconds)
            except subprocess.TimeoutExpired:
                return [f"has not ended after {self.block_seconds:g} s"]
        said = f"it said: {output}{complaints}"
        if running.returncode:
            return [f"ended with {running.returncode}; {said}"]
        if step.answer is None:
            return []
        found = differences(step.answer.language, self._here(step.answer.text), output)
        return [*found, said] if found else []

    @contextmanager
    def _running(self, step: Step, definitions: str) -> Iterator[subprocess.Popen[str]]:
        """What it has started ends with the block, whatever became of itself."""
        running = subprocess.Popen(
            ["bash", "-c", self._here(f"set -euo pipefail\n{definitions}{step.block.text}")],
            cwd=self.folder,
            env={**os.environ, **self.environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        with running:
            try:
                yield running
            finally:
                with suppress(ProcessLookupError):
                    os.killpg(running.pid, signal.SIGKILL)

    def _here(self, text: str) -> str:
        for place, other in self.places.items():
            text = text.replace(place, other)
        return text


def steps_of(page: Page, mark: str = "") -> Iterator[Step]:
    """An answer is what the fence behind a block shows."""
    blocks = page.blocks
    for block, behind in zip(blocks, (*blocks[1:], None), strict=True):
        is_elsewhere = {CLUSTER, NODE, START} & set(block.marks)
        if block.language == SHELL and (mark in block.marks if mark else not is_elsewhere):
            is_answer = behind is not None and behind.language in ANSWERS
            yield Step(block=block, answer=behind if is_answer else None)


def syntax_fault(block: Block) -> str:
    done = subprocess.run(
        ["bash", "-n"], input=block.text, capture_output=True, text=True, check=False
    )
    return done.stderr
