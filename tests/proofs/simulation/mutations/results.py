"""The results of mutations, as the judging processes report them, and their table."""

import json
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from typing import Final

import attrs

# The limit of processor time for one seed; a run takes a few seconds.
MOST_SECONDS: Final = 60.0


class Verdict(StrEnum):
    """The result of a mutation. Only FOUND is a success; OPEN may still become another one."""

    FOUND = "found"
    OPEN = "open"
    NOT_FOUND = "not found"
    TIME_UP = "out of time"
    SPUN = f"spun for {MOST_SECONDS:g} processor seconds"
    BROKEN = "failed to run"


class End(StrEnum):
    """How a run ended. A run that spun shows no broken promise."""

    SOUND = "sound"
    FAILED = "failed"
    SPUN = "spun"


@attrs.frozen(kw_only=True, slots=True)
class Judged:
    """The result of one seed or test, which a process prints as a line."""

    end: End
    seed: int | None = None
    complaint: str = ""

    @property
    def line(self) -> str:
        return json.dumps(attrs.asdict(self))


@attrs.frozen(kw_only=True, slots=True)
class Row:
    """A mutation's result so far. `seeds` counts the seeds; `seed` is the one of the verdict."""

    name: str
    room: str
    test: str = ""
    verdict: Verdict = Verdict.OPEN
    seed: int | None = None
    complaint: str = ""
    seeds: int = 0
    seconds: float = 0.0

    @property
    def judged_by(self) -> str:
        return self.test or ("" if self.seed is None else f"seed {self.seed}")

    @property
    def goes_on(self) -> bool:
        """Return whether more seeds may change the verdict."""
        return self.verdict in (Verdict.OPEN, Verdict.SPUN)

    def after(self, judged: Judged) -> "Row":
        verdicts = {End.FAILED: Verdict.FOUND, End.SPUN: Verdict.SPUN}
        return attrs.evolve(
            self,
            verdict=verdicts.get(judged.end, self.verdict),
            seed=self.seed if judged.end is End.SOUND else judged.seed,
            complaint=judged.complaint or self.complaint,
            seeds=self.seeds + (judged.seed is not None),
        )

    def without_its_find(self) -> "Row":
        """Return the row without a find that fails on the code without the mutation, too."""
        return attrs.evolve(self, verdict=Verdict.OPEN, seed=None, complaint="")

    def closed(self) -> "Row":
        """Return the final row, when nothing is left to try."""
        return self.given_up(Verdict.NOT_FOUND) if self.verdict is Verdict.OPEN else self

    def given_up(self, verdict: Verdict, complaint: str = "") -> "Row":
        return attrs.evolve(self, verdict=verdict, complaint=complaint)


def read_line(line: str) -> Judged | None:
    """Return the result in the line, or None for any other output."""
    if not line.startswith('{"end"'):
        return None
    parsed = json.loads(line)
    return Judged(end=End(parsed["end"]), seed=parsed["seed"], complaint=parsed["complaint"])


def all_found(rows: Sequence[Row]) -> bool:
    return all(row.verdict is Verdict.FOUND for row in rows)


def summary_of(row: Row) -> str:
    by = f" by {row.judged_by}" if row.judged_by else ""
    complaint = f": {row.complaint}" if row.complaint else ""
    return f"{row.name}: {row.verdict}{by}{complaint}"


def table(rows: Sequence[Row]) -> Iterator[str]:
    """Yield the lines of the table, with the mutations that were not found at the end."""
    width = max((len(row.name) for row in rows), default=0)
    for row in sorted(rows, key=lambda each: each.verdict is not Verdict.FOUND):
        by = f" by {row.judged_by}" if row.judged_by else ""
        taken = f"{row.seeds:3d} seeds" if row.seeds else " " * 9
        yield f"{row.name:{width}} {taken} {row.seconds:5.0f} s  {row.verdict}{by}"
    found = sum(row.verdict is Verdict.FOUND for row in rows)
    yield f"{found} of {len(rows)} mutations found"


def as_json(rows: Iterable[Row]) -> str:
    return json.dumps([_document_of(row) for row in rows], indent=1) + "\n"


def _document_of(row: Row) -> dict[str, object]:
    return {
        "name": row.name,
        "room": row.room,
        "verdict": row.verdict.value,
        "judged_by": row.judged_by,
        "seeds": row.seeds,
        "seconds": round(row.seconds, 1),
        "complaint": row.complaint,
    }
