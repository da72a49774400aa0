"""A runner of a page's shell blocks, which compares their output with the page.

A block `sh` is run, and a block `json` or `text` after it is its expected answer. Marks follow the
language. `again` repeats a block until the answer is the expected one, as a reader would. `aside`
lets it run while the rest of the page is walked, as in another terminal. `node` blocks are run
only by the walk over a real node, which runs nothing else. `cluster` blocks need a real cluster,
and `start` blocks install or start what the test has started; of these only the syntax is checked.
Blocks that only set variables apply to all later blocks of their page.
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
    """A walk over pages; `places` maps texts of a page to their replacements here.

    With a `mark`, only blocks with that mark are run. `block_seconds` bounds one run of a block,
    and `patience_seconds` bounds the repetition of a block marked `again`.
    """

    folder: Path
    places: Mapping[str, str] = attrs.field(factory=dict)
    environment: Mapping[str, str] = attrs.field(factory=dict)
    mark: str = ""
    block_seconds: float = 90.0
    patience_seconds: float = 90.0

    def faults(self, page: Page) -> list[str]:
        """Return the faults of the first step that fails, since later steps depend on it."""
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
        """Run the block, and kill its whole process group when the context is left."""
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
    """Yield the blocks to run, each with the fenced answer that follows it."""
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
