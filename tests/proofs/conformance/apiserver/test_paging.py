"""Lists in pages: all pages show one version, however the objects change in between."""

from typing import Any

import pytest
import pytest_asyncio

from tests.proofs.conformance.calls import Api, Document
from tests.proofs.conformance.objects import CONFIG_MAPS, config_map

NAMES = ["a", "b", "c", "d", "e"]


@pytest_asyncio.fixture
async def five(api: Api, maps: str) -> str:
    """Create five ConfigMaps and return their path; the label excludes the cluster's own map."""
    for name in NAMES:
        (await api.post(maps, config_map(name, labels={"of": "five"}))).ok(201)
    return maps


def names(page: Document) -> list[str]:
    return [one["metadata"]["name"] for one in page["items"]]


async def pages(api: Api, path: str, limit: int, **query: Any) -> list[Document]:
    read = [(await api.get(path, limit=limit, **query)).ok(200)]
    while token := read[-1]["metadata"].get("continue"):
        read.append((await api.get(path, limit=limit, continue_=token, **query)).ok(200))
    return read


@pytest.mark.parametrize("limit", [1, 2, 5, 6])
async def test_the_pages_together_are_the_whole_list(api: Api, five: str, limit: int) -> None:
    whole = (await api.get(five, labelSelector="of=five")).ok()
    read = await pages(api, five, limit, labelSelector="of=five")
    assert [one for page in read for one in page["items"]] == whole["items"]
    assert all(len(page["items"]) <= limit for page in read)


async def test_objects_are_listed_in_the_order_of_their_names(api: Api, five: str) -> None:
    assert names((await api.get(five, labelSelector="of=five")).ok()) == NAMES


@pytest.mark.usefixtures("five")
async def test_namespaces_are_listed_in_order_too(api: Api, namespace: str) -> None:
    (await api.post(CONFIG_MAPS.path(namespace="default"), config_map(f"x{namespace}"))).ok(201)
    found = (await api.get(CONFIG_MAPS.path())).ok()["items"]
    keys = [(one["metadata"]["namespace"], one["metadata"]["name"]) for one in found]
    assert keys == sorted(keys)
    assert {(namespace, name) for name in NAMES} < set(keys)


async def test_items_of_a_built_in_list_omit_their_kind(api: Api, five: str) -> None:
    page = (await api.get(five, limit=1)).ok()
    assert (page["kind"], page["apiVersion"]) == ("ConfigMapList", "v1")
    assert "kind" not in page["items"][0]


async def test_items_of_a_custom_list_include_their_kind(api: Api, widgets: str) -> None:
    body = {
        "apiVersion": "conformance.example.com/v1",
        "kind": "Widget",
        "metadata": {"name": "a"},
        "spec": {"size": 1},
    }
    (await api.post(widgets, body)).ok(201)
    page = (await api.get(widgets)).ok()
    assert page["kind"] == "WidgetList"
    assert page["items"][0]["kind"] == "Widget"


async def test_a_page_reports_the_number_of_remaining_items(api: Api, five: str) -> None:
    page = (await api.get(five, limit=3)).ok()
    everything = (await api.get(five)).ok()["items"]
    assert page["metadata"]["remainingItemCount"] == len(everything) - 3


async def test_a_page_of_a_selection_omits_the_remaining_count(api: Api, five: str) -> None:
    page = (await api.get(five, limit=3, labelSelector="of=five")).ok()
    assert "remainingItemCount" not in page["metadata"]
    assert page["metadata"]["continue"]


async def test_the_last_page_has_no_token(api: Api, five: str) -> None:
    page = (await api.get(five, limit=100, labelSelector="of=five")).ok()
    assert not page["metadata"].get("continue")


async def test_all_pages_have_one_version(api: Api, five: str) -> None:
    versions = {
        page["metadata"]["resourceVersion"]
        for page in await pages(api, five, 2, labelSelector="of=five")
    }
    assert len(versions) == 1


async def test_later_pages_do_not_show_later_changes(api: Api, five: str) -> None:
    first = (await api.get(five, limit=2, labelSelector="of=five")).ok()
    (await api.post(five, config_map("c1", labels={"of": "five"}))).ok(201)
    (await api.patch(f"{five}/d", {"data": {"k": "v"}})).ok()
    (await api.delete(f"{five}/e")).ok()
    token = first["metadata"]["continue"]
    rest = (await api.get(five, limit=9, continue_=token, labelSelector="of=five")).ok(200)
    assert names(first) + names(rest) == NAMES
    assert all("data" not in one for one in rest["items"])


async def test_partial_objects_are_paged_too(api: Api, five: str) -> None:
    accept = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
    query = {"limit": 3, "labelSelector": "of=five"}
    first = (await api.get(five, accept=accept, **query)).ok()
    token = first["metadata"]["continue"]
    rest = (await api.get(five, accept=accept, continue_=token, **query)).ok()
    assert names(first) + names(rest) == NAMES


async def test_a_malformed_token_is_400(api: Api, five: str) -> None:
    answer = await api.get(five, limit=1, continue_="garbage")
    assert answer.refusal == (400, "BadRequest")


async def test_a_token_with_a_version_is_refused(api: Api, five: str) -> None:
    first = (await api.get(five, limit=1)).ok()
    metadata = first["metadata"]
    answer = await api.get(
        five,
        limit=1,
        continue_=metadata["continue"],
        resourceVersion=metadata["resourceVersion"],
    )
    assert answer.refusal == (400, "BadRequest")


async def test_a_list_is_at_least_as_new_as_the_requested_version(api: Api, five: str) -> None:
    version = (await api.patch(f"{five}/a", {"data": {"k": "v"}})).ok()["metadata"][
        "resourceVersion"
    ]
    page = (await api.get(five, resourceVersion=version)).ok(200)
    assert int(page["metadata"]["resourceVersion"]) >= int(version)
    assert next(one for one in page["items"] if one["metadata"]["name"] == "a")["data"]


async def test_version_zero_accepts_any_version(api: Api, five: str) -> None:
    async def look() -> list[str]:
        page = (await api.get(five, resourceVersion="0", labelSelector="of=five")).ok(200)
        return names(page)

    assert await api.until(look, lambda seen: len(seen) == len(NAMES)) == NAMES


async def test_a_version_that_is_not_a_number_is_400(api: Api, five: str) -> None:
    answer = await api.get(five, resourceVersion="latest")
    assert answer.status == 400


async def test_an_empty_list_has_a_version_and_no_items(api: Api, widgets: str) -> None:
    page = (await api.get(widgets)).ok(200)
    assert page["items"] == []
    assert int(page["metadata"]["resourceVersion"]) > 0


async def test_a_list_in_an_absent_namespace_is_empty(api: Api) -> None:
    assert (await api.get(CONFIG_MAPS.path(namespace="nowhere"))).ok(200)["items"] == []


async def test_an_exact_version_is_listed_as_it_was(api: Api, five: str) -> None:
    version = (await api.get(five)).ok()["metadata"]["resourceVersion"]
    (await api.delete(f"{five}/e")).ok()
    page = (
        await api.get(
            five,
            resourceVersion=version,
            resourceVersionMatch="Exact",
            labelSelector="of=five",
        )
    ).ok(200)
    assert names(page) == NAMES
    assert page["metadata"]["resourceVersion"] == version
