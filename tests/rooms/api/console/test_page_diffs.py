"""Events of a page: the whole page once, and then only what has changed."""

import json
from typing import Any

import attrs

from gpuruntime.api.console.page_diffs import LivePage, PageDiff, Rows, ValueDiff
from gpuruntime.models.kinds.units import GPUUnit, GPUUnitSpec
from gpuruntime.models.kubernetes.metadata import ObjectMeta


def row(name: str, word: str = "") -> bytes:
    return json.dumps({"name": name, "word": word}).encode()


def page(*names: str, following: str = "", **words: str) -> LivePage:
    return LivePage(rows={name: row(name, words.get(name, "")) for name in names}, next=following)


@attrs.define
class Sight:
    page: LivePage

    def look(self) -> LivePage:
        return self.page


def read(events: bytes) -> tuple[str, Any]:
    name, data, *rest = events.decode().split("\n")
    assert rest == ["", ""]
    return name.removeprefix("event: "), json.loads(data.removeprefix("data: "))


def test_the_first_event_is_the_whole_page() -> None:
    news = PageDiff(Sight(page("a", "b", following="x")).look)
    assert read(news()) == (
        "page",
        {"put": [json.loads(row("a")), json.loads(row("b"))], "names": ["a", "b"], "next": "x"},
    )


def test_an_unchanged_page_sends_nothing() -> None:
    news = PageDiff(Sight(page("a", "b")).look)
    assert news()
    assert news() == b""


def test_only_changed_rows_are_sent_again() -> None:
    sight = Sight(page("a", "b", "d"))
    news = PageDiff(sight.look)
    news()
    sight.page = page("b", "c", "d", following="y", d="new")
    name, told = read(news())
    assert name == "change"
    assert [each["name"] for each in told["put"]] == ["c", "d"]
    assert (told["names"], told["next"]) == (["b", "c", "d"], "y")


def test_a_removed_row_and_a_new_cursor_are_sent_without_rows() -> None:
    sight = Sight(page("a", "b"))
    news = PageDiff(sight.look)
    news()
    sight.page = page("a")
    assert read(news())[1] == {"put": [], "names": ["a"], "next": ""}
    sight.page = page("a", following="z")
    assert read(news())[1] == {"put": [], "names": ["a"], "next": "z"}


def test_line_breaks_in_a_text_cannot_forge_an_event() -> None:
    hostile = LivePage(rows={"a": json.dumps({"name": "a\n\nevent: x\ndata: {}"}).encode()})
    assert read(PageDiff(lambda: hostile)())[0] == "page"


def test_a_value_is_sent_when_it_changes() -> None:
    values = iter([{"n": 1}, {"n": 1}, {"n": 2}])
    news = ValueDiff("fleet", lambda: next(values))
    assert read(news()) == ("fleet", {"n": 1})
    assert news() == b""
    assert read(news()) == ("fleet", {"n": 2})


def test_an_unchanged_row_is_not_encoded_again() -> None:
    asked: list[str] = []

    def row_of(unit: GPUUnit) -> object:
        asked.append(unit.metadata.name)
        return {"name": unit.metadata.name, "image": unit.spec.image}

    def unit(name: str, image: str = "") -> GPUUnit:
        return GPUUnit(
            metadata=ObjectMeta(name=name), spec=GPUUnitSpec(specName="g1", image=image)
        )

    rows, first, second = Rows(row_of), unit("a"), unit("b")
    assert list(rows.of([first, second])) == ["a", "b"]
    changed = unit("b", "x")
    assert rows.of([first, changed])["b"] == b'{"name":"b","image":"x"}'
    assert asked == ["a", "b", "b"]
