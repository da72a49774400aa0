"""Cached pages: reused while nothing in them has changed, and never outdated."""

import json

from gpuruntime.api.views.page_cache import MOST_PAGES, PageCache


def item(number: int) -> bytes:
    return b'{"name":"unit-%d"}' % number


ITEMS = [item(1), item(2)]


def test_a_document_is_the_page_as_json() -> None:
    document = PageCache().of("page", 1, ITEMS, "more")
    assert json.loads(document) == {
        "data": [{"name": "unit-1"}, {"name": "unit-2"}],
        "next": "more",
    }


def test_an_empty_page_is_a_document() -> None:
    assert json.loads(PageCache().of("page", 1, [], "")) == {"data": [], "next": ""}


def test_the_same_items_are_the_same_document() -> None:
    documents = PageCache()
    first = documents.of("page", 1, [*ITEMS], "")
    assert documents.of("page", 1, [*ITEMS], "") is first


def test_a_document_is_unchanged_while_the_version_of_its_list_is() -> None:
    documents = PageCache()
    assert documents.unchanged("page", 1) is None
    first = documents.of("page", 1, ITEMS, "")
    assert documents.unchanged("page", 1) is first
    assert documents.unchanged("page", 2) is None
    assert documents.of("page", 2, [*ITEMS], "") is first
    assert documents.unchanged("page", 2) is first


def test_a_changed_page_becomes_a_new_document() -> None:
    documents = PageCache()
    documents.of("page", 1, ITEMS, "")
    for items, following in (
        ([item(1), item(3)], ""),
        ([item(3), item(1)], ""),
        ([item(1)], ""),
        ([item(1)], "more"),
    ):
        shown = json.loads(documents.of("page", 1, items, following))
        assert shown["data"] == [json.loads(each) for each in items]
        assert shown["next"] == following


def test_pages_of_different_queries_are_kept_apart() -> None:
    documents = PageCache()
    first, second = documents.of("a", 1, ITEMS, ""), documents.of("b", 1, ITEMS[:1], "")
    assert documents.of("a", 1, ITEMS, "") is first
    assert documents.of("b", 1, ITEMS[:1], "") is second


def test_kept_pages_stay_below_the_byte_limit() -> None:
    documents = PageCache(most_bytes=100)
    for number in range(100):
        documents.of(number, 1, [item(number)], "")
    assert 0 < len(documents) <= 3
    assert json.loads(documents.of(0, 1, [item(0)], "")) == {
        "data": [{"name": "unit-0"}],
        "next": "",
    }


def test_kept_empty_pages_stay_below_the_page_limit() -> None:
    documents = PageCache()
    for number in range(2 * MOST_PAGES):
        documents.of(number, 1, [], "")
    assert len(documents) == MOST_PAGES


def test_a_page_beyond_the_byte_limit_is_sent_and_not_kept() -> None:
    documents = PageCache(most_bytes=10)
    assert json.loads(documents.of("page", 1, ITEMS, ""))["data"]
    assert not len(documents)
