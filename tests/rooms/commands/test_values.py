"""Values as people and as programs read them."""

import json
from datetime import UTC, datetime, timedelta

import pytest
import yaml

from gpuruntime.client.storages import FileEntry
from gpuruntime.commands import values

NOW = datetime(2026, 1, 1, tzinfo=UTC)
HOSTILE = FileEntry(name="a\x1b[2J\nb\u202e\x85c", size=3)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-5, "0s"), (0, "0s"), (119, "119s"), (120, "2m"), (7200, "2h"), (200_000, "2d")],
)
def test_an_age_is_short(seconds: float, text: str) -> None:
    assert values.age(NOW - timedelta(seconds=seconds), NOW) == text


def test_a_missing_moment_has_no_age() -> None:
    assert values.age(None, NOW) == ""


def test_a_document_is_printable_and_keeps_its_meaning() -> None:
    for text, read in (
        (values.as_json(HOSTILE), json.loads),
        (values.as_yaml(HOSTILE), yaml.safe_load),
    ):
        assert text.replace("\n", "").isprintable()
        assert read(text)["name"] == HOSTILE.name
    assert "grüße" in values.as_yaml(FileEntry(name="grüße"))
