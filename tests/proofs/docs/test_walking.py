"""Tests of the walk over a page: it finds each mistake that is planted here."""

from pathlib import Path

from tests.proofs.docs.pages import Page
from tests.proofs.docs.walking import Walk

FENCE = "```"


def faults(
    folder: Path,
    *blocks: tuple[str, str],
    block_seconds: float = 90.0,
    patience_seconds: float = 90.0,
) -> list[str]:
    walk = Walk(
        folder=folder,
        places={"HERE": "there"},
        block_seconds=block_seconds,
        patience_seconds=patience_seconds,
    )
    return walk.faults(planted(*blocks))


def planted(*blocks: tuple[str, str]) -> Page:
    text = "".join(f"{FENCE}{info}\n{body}\n{FENCE}\n" for info, body in blocks)
    return Page("planted.md", text)


def test_a_correct_page_has_no_fault(tmp_path: Path) -> None:
    right = (
        ("sh", "name=Ada\nlast='L'"),
        ("sh", 'echo "{\\"hello\\": \\"$name\\", \\"more\\": [1, 2, 3]}HERE" | sed s/there/7/'),
        ("json", '{"hello": "A…", "more": [1, "…"]}\n7'),
        ("sh", "echo one; echo two; echo three"),
        ("text", "one\nth…"),
    )
    assert faults(tmp_path, *right) == []


def test_a_wrong_command_is_found_with_its_place(tmp_path: Path) -> None:
    (found,) = faults(tmp_path, ("sh", "true"), ("sh", "no-such-command --at all"))
    assert found.startswith("planted.md:4: ended with 127")
    assert "no-such-command" in found


def test_a_command_that_fails_in_the_middle_is_found(tmp_path: Path) -> None:
    assert "ended with 1" in faults(tmp_path, ("sh", "false\ntrue"))[0]


def test_a_wrong_answer_is_found(tmp_path: Path) -> None:
    wrong = ("sh", """echo '{"a": 1, "b": ["x"], "c": {"d": "e"}}'""")
    shown = ("json", '{"a": 2, "b": ["x", "y"], "c": {"d": "f…", "g": "…"}}')
    assert faults(tmp_path, wrong, shown)[:4] == [
        "planted.md:1: $0.a is 1, not 2",
        "planted.md:1: $0.b has 1 entries, not 2",
        "planted.md:1: $0.c.d is 'e', not 'f…'",
        "planted.md:1: $0.c has no g",
    ]


def test_an_answer_of_another_type_or_number_is_found(tmp_path: Path) -> None:
    assert "is True, not 1" in faults(tmp_path, ("sh", "echo true"), ("json", "1"))[0]
    assert "has 2 documents, not 1" in faults(tmp_path, ("sh", "echo 1 2"), ("json", "1"))[0]
    assert "is no JSON" in faults(tmp_path, ("sh", "echo nonsense"), ("json", "1"))[0]


def test_a_missing_line_is_found(tmp_path: Path) -> None:
    found = faults(tmp_path, ("sh", "echo one; echo two"), ("text", "two\none"))
    assert found[0] == "planted.md:1: there is no line 'one'"


def test_a_block_marked_again_may_succeed_later(tmp_path: Path) -> None:
    counting = ("sh again", "echo -n x >> asked; cat asked; echo")
    assert faults(tmp_path, counting, ("text", "xxx")) == []


def test_a_block_marked_again_that_never_succeeds_ends_the_walk(tmp_path: Path) -> None:
    found = faults(
        tmp_path,
        ("sh again", "echo no"),
        ("text", "yes"),
        ("sh", "touch further"),
        patience_seconds=0.2,
    )
    assert found[0] == "planted.md:1: there is no line 'yes'"
    assert not (tmp_path / "further").exists()


def test_a_command_that_does_not_end_is_found(tmp_path: Path) -> None:
    assert "has not ended" in faults(tmp_path, ("sh", "sleep 30"), block_seconds=0.2)[0]


def test_blocks_that_start_a_program_or_need_a_cluster_are_not_run(tmp_path: Path) -> None:
    skipped = (("sh start", "touch a"), ("sh cluster", "touch b"), ("yaml", "touch: c"))
    assert faults(tmp_path, *skipped) == []
    assert list(tmp_path.iterdir()) == []


def test_a_block_marked_aside_ends_with_the_walk(tmp_path: Path) -> None:
    aside = ("sh aside", "echo $$ > pid; exec sleep 60")
    lives = ("sh again", "kill -0 $(cat pid)")
    assert faults(tmp_path, aside, lives) == []
    assert not Path("/proc", (tmp_path / "pid").read_text().strip()).exists()


def test_a_walk_with_a_mark_runs_only_blocks_with_that_mark(tmp_path: Path) -> None:
    both = (("sh", "touch here"), ("sh node", 'echo "$word"; touch there'), ("text", "well"))
    assert faults(tmp_path, *both[:2]) == []
    assert [path.name for path in tmp_path.iterdir()] == ["here"]
    walk = Walk(folder=tmp_path, environment={"word": "well"}, mark="node")
    (tmp_path / "here").unlink()
    assert walk.faults(planted(*both)) == []
    assert [path.name for path in tmp_path.iterdir()] == ["there"]
