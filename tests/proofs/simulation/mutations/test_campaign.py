"""Tests of a campaign with a judge that only returns prepared results."""

import json
from collections.abc import Iterator, Mapping, Sequence

import attrs
import pytest

from tests.proofs.simulation.mutations.campaign import Campaign, NotJudgedError
from tests.proofs.simulation.mutations.mutation import Mutation
from tests.proofs.simulation.mutations.results import (
    End,
    Judged,
    Row,
    Verdict,
    all_found,
    as_json,
    read_line,
    summary_of,
    table,
)

MUTATION = Mutation("a defect", "gpuruntime.kube.client", "old", "new")
BY_TEST = attrs.evolve(MUTATION, test="tests/test_it.py")
FAILED, SPUN = End.FAILED, End.SPUN


@attrs.define
class Script:
    """Prepared results by seed, with and without the mutation; all other seeds are sound."""

    planted: Mapping[int | None, End | Verdict] = attrs.field(factory=dict)
    tree: Mapping[int | None, End | Verdict] = attrs.field(factory=dict)
    asked: list[tuple[str, range]] = attrs.field(factory=list)

    def judge(self, planted: str, seeds: range, test: str) -> Iterator[Judged]:
        self.asked.append((planted, seeds))
        ends = self.planted if planted else self.tree
        for seed in (None,) if test else seeds:
            match ends.get(seed, End.SOUND):
                case Verdict() as verdict:
                    raise NotJudgedError(verdict, "why")
                case End() as end:
                    yield Judged(end=end, seed=seed, complaint="it broke" if end is FAILED else "")
                    if end is not End.SOUND:
                        return

    def run(self, *mutations: Mutation) -> list[Row]:
        return Campaign(judge=self.judge, on_row=lambda _: None).run(mutations)


def test_a_mutation_is_found_by_the_first_seed_that_fails() -> None:
    [row] = Script(planted={6: FAILED}).run(MUTATION)
    assert (row.verdict, row.judged_by, row.seeds) == (Verdict.FOUND, "seed 6", 7)
    assert row.complaint == "it broke"


def test_a_mutation_that_no_seed_finds_is_tried_with_all_seeds() -> None:
    [row] = Script().run(MUTATION)
    assert (row.verdict, row.judged_by, row.seeds) == (Verdict.NOT_FOUND, "", 100)


def test_a_find_that_fails_without_the_mutation_too_does_not_count_and_the_next_seeds_go_on() -> (
    None
):
    [row] = Script(planted={2: FAILED, 5: FAILED}, tree={2: FAILED}).run(MUTATION)
    assert (row.verdict, row.judged_by, row.seeds) == (Verdict.FOUND, "seed 5", 6)


def test_a_find_of_the_last_seed_that_does_not_count_leaves_the_mutation_not_found() -> None:
    [row] = Script(planted={99: FAILED}, tree={99: FAILED}).run(MUTATION)
    assert (row.verdict, row.judged_by, row.complaint) == (Verdict.NOT_FOUND, "", "")


def test_the_code_without_a_mutation_is_judged_once_for_each_seed() -> None:
    script = Script(planted={3: FAILED})
    rows = script.run(MUTATION, attrs.evolve(MUTATION, name="another"))
    assert all_found(rows)
    assert [asked for asked in script.asked if not asked[0]] == [("", range(3, 4))]


def test_a_seed_that_spins_finds_nothing_and_ends_only_its_round() -> None:
    script = Script(planted={1: SPUN, 5: FAILED})
    [row] = script.run(MUTATION)
    assert (row.verdict, row.judged_by, row.seeds) == (Verdict.FOUND, "seed 5", 4)


def test_a_mutation_that_spins_and_is_never_found_has_its_own_verdict() -> None:
    [row] = Script(planted={0: SPUN}).run(MUTATION)
    assert (row.verdict, row.judged_by) == (Verdict.SPUN, "seed 0")


def test_a_mutation_with_a_test_is_judged_once_without_seeds() -> None:
    script = Script(planted={None: FAILED})
    [row] = script.run(BY_TEST)
    assert (row.verdict, row.judged_by, row.seeds) == (Verdict.FOUND, BY_TEST.test, 0)
    script = Script()
    [row] = script.run(BY_TEST)
    assert (row.verdict, len(script.asked)) == (Verdict.NOT_FOUND, 1)


def test_a_test_that_fails_without_the_mutation_finds_nothing() -> None:
    [row] = Script(planted={None: FAILED}, tree={None: FAILED}).run(BY_TEST)
    assert row.verdict is Verdict.NOT_FOUND


@pytest.mark.parametrize("verdict", [Verdict.TIME_UP, Verdict.BROKEN])
def test_a_mutation_that_cannot_be_judged_to_the_end_has_its_own_verdict(verdict: Verdict) -> None:
    [row] = Script(planted={6: verdict}).run(MUTATION)
    assert (row.verdict, row.seeds, row.complaint) == (verdict, 6, "why")


def test_a_find_that_could_not_be_repeated_without_the_mutation_does_not_count() -> None:
    [row] = Script(planted={6: FAILED}, tree={6: Verdict.TIME_UP}).run(MUTATION)
    assert row.verdict is Verdict.TIME_UP


def row_of(verdict: Verdict) -> Row:
    return Row(name="a defect", room="kube", verdict=verdict, seed=6, seeds=7, seconds=12.34)


@pytest.mark.parametrize("verdict", [each for each in Verdict if each is not Verdict.FOUND])
def test_a_campaign_succeeds_only_if_each_mutation_is_found(verdict: Verdict) -> None:
    found = row_of(Verdict.FOUND)
    assert all_found([found])
    assert not all_found([found, row_of(verdict)])


def test_the_table_shows_the_number_of_seeds_and_the_missing_mutations_last() -> None:
    *rows, last = table([row_of(Verdict.NOT_FOUND), row_of(Verdict.FOUND)])
    assert [row.split() for row in rows] == [
        f"a defect 7 seeds 12 s {verdict} by seed 6".split() for verdict in ("found", "not found")
    ]
    assert last == "1 of 2 mutations found"


def test_the_json_has_a_row_for_each_mutation() -> None:
    [row] = json.loads(as_json([row_of(Verdict.FOUND)]))
    assert row == {
        "name": "a defect",
        "room": "kube",
        "verdict": "found",
        "judged_by": "seed 6",
        "seeds": 7,
        "seconds": 12.3,
        "complaint": "",
    }


def test_a_row_is_printed_with_its_complaint() -> None:
    told = summary_of(attrs.evolve(row_of(Verdict.FOUND), complaint="it broke"))
    assert told == "a defect: found by seed 6: it broke"


def test_the_lines_of_results_are_read_among_other_output() -> None:
    told = [Judged(end=End.SOUND, seed=1), Judged(end=FAILED, complaint='it "broke"')]
    lines: Sequence[str] = ["", "1 passed", *(each.line for each in told), "{}"]
    assert list(filter(None, map(read_line, lines))) == told
