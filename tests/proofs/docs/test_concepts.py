"""The tables of the pages, compared with the values in the code that they explain."""

from collections.abc import Callable, Iterable
from enum import StrEnum

import attrs
import pytest

from gpuruntime.api.http.problems import STATUSES
from gpuruntime.models.kinds import labels
from gpuruntime.models.kinds.functions import Serverless
from gpuruntime.models.kinds.invocations import FailureClass, State
from gpuruntime.models.kinds.phases import (
    PoolPhase,
    StoragePhase,
    UnitPhase,
    phase_of,
    pool_phase_of,
    storage_phase_of,
)
from gpuruntime.models.kinds.pools import Refill, StockPoolStatus
from gpuruntime.models.kinds.reasons import (
    ConditionType,
    FunctionReason,
    MountReason,
    PoolReason,
    StorageReason,
    UnitReason,
)
from gpuruntime.models.kinds.units import Timeline
from gpuruntime.models.kubernetes.conditions import Condition
from tests.proofs.docs.answers import differences
from tests.proofs.docs.pages import Page, page_of
from tests.rooms.reconcilers.unit.test_start_stages import WORDS

CONCEPTS = page_of("docs/concepts.md")
WALK = page_of("docs/walkthrough.md")
SERVERLESS = page_of("docs/serverless.md")
INVOCATIONS = page_of("docs/invocations.md")
# The text of an empty cell.
NOTHING = "\N{EN DASH}"
TRUE_OF_UNITS = {UnitReason.DEPLOYMENT_READY, UnitReason.FUNCTION_DECLARED}
TRUE_OF_STORAGES = {StorageReason.VOLUME_READY, StorageReason.EXPANSION_REFUSED}
# Reasons of the conditions Prepared and AccessorReady.
OF_STEPS = {
    StorageReason.NOTHING_TO_PREPARE,
    StorageReason.PREPARE_SUCCEEDED,
    StorageReason.ACCESSOR_SERVING,
    StorageReason.ACCESSOR_OFF,
    StorageReason.ACCESSOR_PROGRESSING,
    StorageReason.ACCESSOR_FAILED,
}


def first_cells(page: Page, *heads: str) -> list[str]:
    return [row[0].strip("`") for row in page.table(*heads)]


def under(heading: str) -> Page:
    """Return the part of the page about concepts below this heading."""
    part = CONCEPTS.text.partition(f"### {heading}\n")[2]
    assert part, f"there is no heading {heading}"
    return Page(heading, part.partition("\n#")[0])


def rows_under(heading: str) -> dict[str, str]:
    """Return the second cell of each reason, which is its phase if the table has phases."""
    rows = under(heading).table("reason")
    assert len({row[0] for row in rows}) == len(rows)
    return {row[0].strip("`"): row[1] for row in rows}


def phases(
    reasons: Iterable[StrEnum],
    true: set[StrEnum],
    derive: Callable[[Iterable[Condition]], StrEnum],
) -> dict[str, str]:
    found = {}
    for reason in reasons:
        status = "True" if reason in true else "False"
        found[str(reason)] = str(derive([Condition(type="Ready", status=status, reason=reason)]))
    return found


def test_the_reasons_of_units_are_listed_with_their_phases() -> None:
    assert rows_under("Units: Ready") == phases(UnitReason, {*TRUE_OF_UNITS}, phase_of)


def test_the_reasons_of_pools_are_listed_with_their_phases() -> None:
    expected = phases(PoolReason, {PoolReason.STOCK_READY}, pool_phase_of)
    assert rows_under("Pools: Ready") == expected


def test_the_reasons_of_storages_are_listed_with_their_phases() -> None:
    of_ready = [each for each in StorageReason if each not in OF_STEPS]
    expected = phases(of_ready, {*TRUE_OF_STORAGES}, storage_phase_of)
    assert rows_under("Storages: Ready") == expected
    steps = {**rows_under("Storages: Prepared"), **rows_under("Storages: AccessorReady")}
    assert set(steps) == OF_STEPS


@pytest.mark.parametrize(
    ("heading", "reasons"),
    [("Units: StorageReady", MountReason), ("Units: ServerlessReady", FunctionReason)],
)
def test_the_reasons_of_further_conditions_are_listed(
    heading: str, reasons: type[StrEnum]
) -> None:
    assert list(rows_under(heading)) == list(reasons)


def test_every_phase_is_listed() -> None:
    told = {kind: set[str]() for kind in ("unit", "pool", "storage")}
    for phase, *cells in CONCEPTS.table("phase", "of a unit"):
        for kind, cell in zip(told, cells, strict=True):
            if cell != NOTHING:
                told[kind].add(phase.strip("`"))
    assert told == {"unit": {*UnitPhase}, "pool": {*PoolPhase}, "storage": {*StoragePhase}}


def test_conditions_timestamps_counts_and_refills_are_listed() -> None:
    others = ("phase", "conditions", "observedGeneration")
    counts = [each.name for each in attrs.fields(StockPoolStatus) if each.name not in others]
    assert first_cells(CONCEPTS, "field", "what it counts") == counts
    assert set(first_cells(CONCEPTS, "condition", "of")) == {*ConditionType}
    moments = [field.name for field in attrs.fields(Timeline)]
    assert first_cells(CONCEPTS, "moment") == moments
    assert first_cells(CONCEPTS, "`refill`") == [*Refill]


def test_the_messages_of_a_start_are_listed() -> None:
    shown = first_cells(CONCEPTS, "message", "what it waits for")
    real = [words.partition(" since ")[0] for *_, words in WORDS.values()]
    assert [each for each in shown if differences("text", each, "\n".join(real))] == []
    for each in real:
        assert any(not differences("text", f"{one}…", each) for one in shown), each


def test_labels_and_annotations_are_listed() -> None:
    known = {text for text in vars(labels).values() if isinstance(text, str)}
    ours = {text.removeprefix(f"{labels.GROUP}/") for text in known if f"{labels.GROUP}/" in text}
    assert set(first_cells(CONCEPTS, "name", "on")) == ours


def test_every_error_is_listed_with_its_status() -> None:
    shown = {row[0].strip("`"): int(row[1]) for row in WALK.table("code", "status")}
    assert shown == STATUSES


def test_states_and_failures_of_invocations_are_listed() -> None:
    assert first_cells(INVOCATIONS, "state") == [*State]
    shown = [each for row in INVOCATIONS.table("failureClass") for each in row[0].split(", ")]
    assert {each.strip("`") for each in shown} == {*FailureClass}


def test_the_fields_of_a_function_are_listed_with_their_defaults() -> None:
    shown = {
        row[0].strip("`"): row[1].strip("`") for row in SERVERLESS.table("field of `serverless`")
    }
    known = {
        field.name: str(field.default) if isinstance(field.default, int | str) else NOTHING
        for field in attrs.fields(Serverless)
        if field.name != "workerOf"
    }
    assert shown == known


def test_the_function_on_the_page_is_that_of_the_examples() -> None:
    (shown,) = (block.text for block in SERVERLESS.blocks if block.language == "python")
    assert page_of("examples/greet.py").text.endswith(f"{shown}\n")
