"""What became of each mutation: judged from what processes told of their runs, and shown."""

import json
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from typing import Final

import attrs

# Of the processor, for one seed: a run takes a few.
MOST_SECONDS: Final = 60.0


class Verdict(StrEnum):
    """Only the first one is well; an open one may yet become another."""

    FOUND = "found"
    OPEN = "open"
    NOT_FOUND = "not found"
    TIME_UP = "time was up"
    SPUN = f"spun for {MOST_SECONDS:g} processor seconds"
    BROKEN = "could not be tried"


class End(StrEnum):
    """How a run ended. One that spun breaks no promise that anybody could name."""

    SOUND = "sound"
    FAILED = "failed"
    SPUN = "spun"


@attrs.frozen(kw_only=True, slots=True)
class Judged:
    """One run, of a seed or else of a test: a process tells it in a line."""

    end: End
    seed: int | None = None
    complaint: str = ""

    @property
    def line(self) -> str:
        return json.dumps(attrs.asdict(self))


@attrs.frozen(kw_only=True, slots=True)
class Row:
    """`seeds` have been run so far, of which `seed` was the one that the verdict is of."""

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
        """More seeds may tell more."""
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
        """What found it fails on the tree itself as well."""
        return attrs.evolve(self, verdict=Verdict.OPEN, seed=None, complaint="")

    def closed(self) -> "Row":
        """Nothing is left to try."""
        return self.given_up(Verdict.NOT_FOUND) if self.verdict is Verdict.OPEN else self

    def given_up(self, verdict: Verdict, complaint: str = "") -> "Row":
        return attrs.evolve(self, verdict=verdict, complaint=complaint)


def read_line(line: str) -> Judged | None:
    """None of whatever else a process says."""
    if not line.startswith('{"end"'):
        return None
    told = json.loads(line)
    return Judged(end=End(told["end"]), seed=told["seed"], complaint=told["complaint"])


def is_well(rows: Sequence[Row]) -> bool:
    return all(row.verdict is Verdict.FOUND for row in rows)


def words_of(row: Row) -> str:
    by = f" by {row.judged_by}" if row.judged_by else ""
    told = f": {row.complaint}" if row.complaint else ""
    return f"{row.name}: {row.verdict}{by}{told}"


def table(rows: Sequence[Row]) -> Iterator[str]:
    """Those that were not found stand last."""
    width = max((len(row.name) for row in rows), default=0)
    for row in sorted(rows, key=lambda each: each.verdict is not Verdict.FOUND):
        by = f" by {row.judged_by}" if row.judged_by else ""
        taken = f"{row.seeds:3d} seeds" if row.seeds else " " * 9
        yield f"{row.name:{width}} {taken} {row.seconds:5.0f} s  {row.verdict}{by}"
    found = sum(row.verdict is Verdict.FOUND for row in rows)
    yield f"{found} of {len(rows)} mutations found"


def as_json(rows: Iterable[Row]) -> str:
    return json.dumps([_members_of(row) for row in rows], indent=1) + "\n"


def _members_of(row: Row) -> dict[str, object]:
    return {
        "name": row.name,
        "room": row.room,
        "verdict": row.verdict.value,
        "judged_by": row.judged_by,
        "seeds": row.seeds,
        "seconds": round(row.seconds, 1),
        "complaint": row.complaint,
    }
