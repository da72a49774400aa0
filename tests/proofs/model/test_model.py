from operator import attrgetter

import pytest

from tests.proofs.model.clauses import Clause
from tests.proofs.model.necessity import NEEDS, without
from tests.proofs.model.scopes import BY_TITLE
from tests.proofs.model.search import explore

# Scopes that take a second or less; the nox session `model` explores all of them.
SMALL = (
    "retry, one stock unit",
    "retry, in order",
    "one replica",
    "touched",
    "never",
    "never, deletion",
    "hand-over",
    "refill",
    "lost answers",
    "hand",
    "rolling",
)


@pytest.mark.parametrize("title", SMALL)
def test_a_small_scope_explored_completely_has_no_breach(title: str) -> None:
    report = explore(BY_TITLE[title])
    assert report.is_complete
    assert report.found == {}


@pytest.mark.parametrize(
    "clause", [each for each in Clause if NEEDS[each].scope in SMALL], ids=attrgetter("name")
)
def test_a_search_without_a_clause_finds_the_breach_that_it_prevents(clause: Clause) -> None:
    assert NEEDS[clause].breach in without(clause).found


def test_every_clause_has_a_scope_that_shows_its_purpose() -> None:
    assert set(NEEDS) == set(Clause)


def test_a_trace_leads_from_the_initial_state_to_the_breach() -> None:
    trace = without(Clause.CREATE_BOUND).found[NEEDS[Clause.CREATE_BOUND].breach]
    assert "claim of stock 1" in trace[0]
    assert trace[-1].endswith("lands")
