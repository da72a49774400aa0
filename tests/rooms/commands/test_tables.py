"""Views as people and as programs read them."""

import io
import json
from datetime import UTC, datetime, timedelta

import attrs
import pytest
import yaml

from gpuruntime.client.storages import FileEntry
from gpuruntime.commands import tables
from gpuruntime.commands.progress import Before, Progress, Step, steps_of
from gpuruntime.commands.terminal import Terminal
from gpuruntime.models.kinds.units import Timeline
from gpuruntime.models.views.operators import Job

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SEEDING = Job(
    operationID="seed",
    type="seed_stock_units",
    status="succeeded",
    objectName="op-1",
    objectNamespace="runtime-stock",
    requested=2,
    created=2,
    ready=0,
    consumed=0,
    error="",
    createdAt=NOW,
    updatedAt=NOW,
)
HOSTILE = FileEntry(name="a\x1b[2J\nb\u202e\x85c", size=3)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-5, "0s"), (0, "0s"), (119, "119s"), (120, "2m"), (7200, "2h"), (200_000, "2d")],
)
def test_an_age_is_short(seconds: float, text: str) -> None:
    assert tables.age(NOW - timedelta(seconds=seconds), NOW) == text


def test_a_missing_moment_has_no_age() -> None:
    assert tables.age(None, NOW) == ""


def test_columns_are_aligned_and_a_cell_is_one_line() -> None:
    files = [HOSTILE, FileEntry(name="sub", path_type="Dir"), FileEntry(name="x" * 200, size=1)]
    first, second, third, fourth = tables.table(FileEntry, files, NOW).splitlines()
    assert (first.split(), third) == (["NAME", "SIZE"], "sub/")
    assert second.split() == ["a\\u001b[2J", "b\\u202e", "c", "3"]
    assert fourth.split() == ["x" * 119 + "…", "1"]
    assert len({each.index(size) for each, size in ((second, "3"), (fourth, " 1"))}) <= 2


def test_a_document_is_printable_and_keeps_its_meaning() -> None:
    for text, read in (
        (tables.as_json(HOSTILE), json.loads),
        (tables.as_yaml(HOSTILE), yaml.safe_load),
    ):
        assert text.replace("\n", "").isprintable()
        assert read(text)["name"] == HOSTILE.name
    assert "grüße" in tables.as_yaml(FileEntry(name="grüße"))


def test_steps_of_a_timeline_count_from_the_first() -> None:
    timeline = Timeline(
        acceptedAt=NOW + timedelta(seconds=0.4),
        createdAt=NOW,
        readyAt=NOW + timedelta(seconds=2),
    )
    assert steps_of(timeline) == [
        Step(word="accepted", seconds=0.0),
        Step(word="created", seconds=0.0),
        Step(word="ready", seconds=1.6),
    ]
    assert steps_of(Timeline()) == []


def test_steps_after_a_change_are_the_new_ones_since_it_was_asked() -> None:
    asked_at = NOW + timedelta(hours=1)
    old = Timeline(acceptedAt=NOW, createdAt=NOW, readyAt=NOW + timedelta(seconds=2))
    before = Before(timeline=old, asked_at=asked_at)
    assert steps_of(old, before) == []
    later = attrs.evolve(old, readyAt=asked_at + timedelta(seconds=3))
    assert steps_of(later, before) == [Step(word="ready", seconds=3.0)]


def test_a_state_that_comes_back_is_shown_again() -> None:
    err = io.StringIO()
    progress = Progress(Terminal(out=io.StringIO(), err=err), "seed")
    for ready in (0, 0, 1, 0):
        progress.job(attrs.evolve(SEEDING, ready=ready))
    assert err.getvalue().splitlines() == [
        f"seed: 2 of 2 created, {ready} ready" for ready in (0, 1, 0)
    ]
