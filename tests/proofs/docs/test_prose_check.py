"""The check of prose that the lint runs: what it finds, and what it leaves alone."""

import importlib.util
from types import ModuleType

import pytest

from tests.proofs.docs.pages import ROOT


@pytest.fixture(scope="module")
def prose() -> ModuleType:
    spec = importlib.util.spec_from_file_location("prose_check", ROOT / ".ci" / "prose_check.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


LONG = " ".join(["word"] * 31)


@pytest.mark.parametrize(
    ("source", "line", "fault"),
    [
        pytest.param('"""Of the cluster."""', 1, "begins with 'Of'", id="fragment"),
        pytest.param("x = 1\n# for whoever asks", 2, "says 'whoever'", id="dialect"),
        pytest.param(f'def f():\n    """{LONG}."""', 1, "has a sentence of 31 words", id="length"),
        pytest.param(
            f"# {LONG[:60]}\n# {LONG[60:]}", 1, "has a sentence of 31 words", id="two-line-comment"
        ),
    ],
)
def test_a_fault_in_python_is_found(prose: ModuleType, source: str, line: int, fault: str) -> None:
    assert list(prose.in_python(source)) == [(line, fault)]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(f"# Title\n\n{LONG}", id="paragraph"),
        pytest.param(f"- {LONG[:60]}\n  {LONG[60:]}", id="list-item"),
        pytest.param(f"| a | {LONG} |", id="table-cell"),
    ],
)
def test_a_long_sentence_of_a_document_is_found(prose: ModuleType, text: str) -> None:
    assert [fault for _, fault in prose.in_markdown(text)] == ["has a sentence of 31 words"]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(f"```\n{LONG}\n```", id="code-block"),
        pytest.param(f"One.\n\n    {LONG}", id="indented-code"),
        pytest.param(f"One. [two]({LONG.replace(' ', '/')}) three.", id="link-target"),
        pytest.param("`a`, " * 40, id="list-of-names"),
        pytest.param("word " * 20 + "end. " + "word " * 20, id="two-sentences"),
    ],
)
def test_code_and_short_sentences_are_left_alone(prose: ModuleType, text: str) -> None:
    assert list(prose.in_markdown(text)) == []


def test_a_plain_docstring_is_left_alone(prose: ModuleType) -> None:
    assert list(prose.in_python('"""Return the unit, or None if it is gone."""')) == []
