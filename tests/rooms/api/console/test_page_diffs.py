"""What a reader is told of its page: all of it once, and from then on what is another."""

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


def test_the_whole_page_comes_first() -> None:
    news = PageDiff(Sight(page("a", "b", following="x")).look)
    assert read(news()) == (
        "page",
        {"put": [json.loads(row("a")), json.loads(row("b"))], "names": ["a", "b"], "next": "x"},
    )


def test_nothing_is_told_twice() -> None:
    news = PageDiff(Sight(page("a", "b")).look)
    assert news()
    assert news() == b""


def test_only_what_is_another_comes_again() -> None:
    sight = Sight(page("a", "b", "d"))
    news = PageDiff(sight.look)
    news()
    sight.page = page("b", "c", "d", following="y", d="new")
    name, told = read(news())
    assert name == "change"
    assert [each["name"] for each in told["put"]] == ["c", "d"]
    assert (told["names"], told["next"]) == (["b", "c", "d"], "y")


def test_what_goes_and_what_follows_are_told_though_nothing_is_put() -> None:
    sight = Sight(page("a", "b"))
    news = PageDiff(sight.look)
    news()
    sight.page = page("a")
    assert read(news())[1] == {"put": [], "names": ["a"], "next": ""}
    sight.page = page("a", following="z")
    assert read(news())[1] == {"put": [], "names": ["a"], "next": "z"}


def test_a_hostile_text_stays_in_its_line() -> None:
    hostile = LivePage(rows={"a": json.dumps({"name": "a\n\nevent: x\ndata: {}"}).encode()})
    assert read(PageDiff(lambda: hostile)())[0] == "page"


def test_a_value_is_told_when_it_is_another() -> None:
    values = iter([{"n": 1}, {"n": 1}, {"n": 2}])
    news = ValueDiff("fleet", lambda: next(values))
    assert read(news()) == ("fleet", {"n": 1})
    assert news() == b""
    assert read(news()) == ("fleet", {"n": 2})


def test_what_stays_is_not_encoded_again() -> None:
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
