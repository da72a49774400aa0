"""Other forms of objects: only metadata, and tables."""

import pytest
import pytest_asyncio

from tests.proofs.conformance.calls import Api, Document
from tests.proofs.conformance.definitions import widget
from tests.proofs.conformance.objects import DEPLOYMENTS, PODS, config_map, deployment, pod

PARTIAL = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
PARTIAL_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
TABLE = "application/json;as=Table;g=meta.k8s.io;v=v1"


@pytest_asyncio.fixture(params=["built-in", "custom"])
async def one(api: Api, maps: str, widgets: str, request: pytest.FixtureRequest) -> Document:
    """Create a labelled object, and return it with its collection's path."""
    metadata = {"labels": {"of": "views"}}
    if request.param == "built-in":
        made = (await api.post(maps, config_map("a", {"k": "v"}, **metadata))).ok(201)
        return {"path": maps, "made": made}
    made = (await api.post(widgets, widget("a", metadata=metadata))).ok(201)
    return {"path": widgets, "made": made}


async def test_a_list_of_metadata_contains_only_metadata(api: Api, one: Document) -> None:
    page = (await api.get(one["path"], accept=PARTIAL_LIST, labelSelector="of=views")).ok(200)
    assert page["kind"] == "PartialObjectMetadataList"
    assert page["apiVersion"] == "meta.k8s.io/v1"
    assert int(page["metadata"]["resourceVersion"]) > 0
    assert [item["metadata"] for item in page["items"]] == [one["made"]["metadata"]]
    assert all(item.keys() <= {"kind", "apiVersion", "metadata"} for item in page["items"])


async def test_one_object_is_read_as_metadata(api: Api, one: Document) -> None:
    seen = (await api.get(f"{one['path']}/a", accept=PARTIAL)).ok(200)
    assert seen == {
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": one["made"]["metadata"],
    }


async def test_a_list_cannot_be_read_as_one_metadata_object(api: Api, one: Document) -> None:
    answer = await api.get(one["path"], accept=PARTIAL)
    assert answer.refusal == (406, "NotAcceptable")


async def test_a_table_has_columns_and_rows(api: Api, one: Document) -> None:
    table = (await api.get(one["path"], accept=TABLE, labelSelector="of=views")).ok(200)
    assert (table["kind"], table["apiVersion"]) == ("Table", "meta.k8s.io/v1")
    assert table["columnDefinitions"][0]["name"] == "Name"
    (row,) = table["rows"]
    assert row["cells"][0] == "a"
    assert len(row["cells"]) == len(table["columnDefinitions"])
    assert row["object"]["kind"] == "PartialObjectMetadata"
    assert row["object"]["metadata"] == one["made"]["metadata"]
    assert int(table["metadata"]["resourceVersion"]) > 0


async def test_a_table_of_one_object(api: Api, one: Document) -> None:
    table = (await api.get(f"{one['path']}/a", accept=TABLE)).ok(200)
    assert [row["cells"][0] for row in table["rows"]] == ["a"]


async def test_rows_contain_objects_as_requested(api: Api, one: Document) -> None:
    path = f"{one['path']}/a"
    none = (await api.get(path, accept=TABLE, includeObject="None")).ok(200)
    assert none["rows"][0].get("object") is None
    whole = (await api.get(path, accept=TABLE, includeObject="Object")).ok(200)
    assert whole["rows"][0]["object"] == one["made"]


async def test_a_table_has_the_columns_of_the_definition(api: Api, widgets: str) -> None:
    (await api.post(widgets, widget("a", size=4))).ok(201)
    (await api.patch(f"{widgets}/a/status", {"status": {"phase": "Ready"}})).ok()
    table = (await api.get(widgets, accept=TABLE)).ok(200)
    columns = [(one["name"], one["type"], one["priority"]) for one in table["columnDefinitions"]]
    assert columns == [
        ("Name", "string", 0),
        ("Size", "integer", 0),
        ("Phase", "string", 0),
        ("Color", "string", 1),
        ("Age", "date", 0),
    ]
    assert table["rows"][0]["cells"][:4] == ["a", 4, "Ready", "red"]


async def test_a_cell_without_a_value_is_null(api: Api, widgets: str) -> None:
    (await api.post(widgets, widget("a"))).ok(201)
    table = (await api.get(widgets, accept=TABLE)).ok(200)
    assert table["rows"][0]["cells"][2] is None


async def test_tables_have_pages(api: Api, maps: str) -> None:
    for name in ("a", "b", "c"):
        (await api.post(maps, config_map(name, labels={"of": "views"}))).ok(201)
    query = {"limit": 2, "labelSelector": "of=views"}
    first = (await api.get(maps, accept=TABLE, **query)).ok(200)
    token = first["metadata"]["continue"]
    rest = (await api.get(maps, accept=TABLE, continue_=token, **query)).ok(200)
    cells = [row["cells"][0] for page in (first, rest) for row in page["rows"]]
    assert cells == ["a", "b", "c"]


async def test_a_watch_can_send_tables(api: Api, maps: str) -> None:
    version = (await api.post(maps, config_map("a"))).ok()["metadata"]["resourceVersion"]
    # A real cluster adds a ConfigMap of its own to each new namespace at some time.
    query = {"resourceVersion": version, "fieldSelector": "metadata.name=b"}
    async with api.watch(maps, accept=TABLE, **query) as watch:
        (await api.post(maps, config_map("b"))).ok(201)
        (await api.patch(f"{maps}/b", {"data": {"k": "v"}})).ok(200)
        first, second = await watch.take(2)
    assert (first.type, first.object["kind"]) == ("ADDED", "Table")
    assert first.object["rows"][0]["cells"][0] == "b"
    assert first.object["columnDefinitions"]
    assert second.type == "MODIFIED"
    assert not second.object.get("columnDefinitions")


async def test_a_table_is_preferred_if_the_client_lists_it_first(api: Api, maps: str) -> None:
    answer = await api.get(maps, accept=f"{TABLE},application/json")
    assert answer.ok(200)["kind"] == "Table"


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("pods", ["Name", "Ready", "Status", "Restarts", "Age"]),
        ("deployments", ["Name", "Ready", "Up-to-date", "Available", "Age"]),
    ],
    ids=["pods", "deployments"],
)
async def test_built_in_kinds_have_their_usual_columns(
    api: Api, namespace: str, kind: str, expected: list[str]
) -> None:
    resource = {"pods": PODS, "deployments": DEPLOYMENTS}[kind]
    body = {"pods": pod("x", nodeSelector={"a": "b"}), "deployments": deployment("x", replicas=0)}
    path = resource.path(namespace=namespace)
    await api.admit(path, body[kind])
    table = (await api.get(path, accept=TABLE)).ok(200)
    shown = [one["name"] for one in table["columnDefinitions"] if one["priority"] == 0]
    assert shown == expected


async def test_an_unknown_form_is_406(api: Api, maps: str) -> None:
    answer = await api.get(maps, accept="application/json;as=Poem;g=meta.k8s.io;v=v1")
    assert answer.refusal == (406, "NotAcceptable")


async def test_an_unsupported_media_type_in_accept_is_406(api: Api, maps: str) -> None:
    assert (await api.get(maps, accept="text/html")).status == 406


@pytest.mark.parametrize("accept", ["*/*", "application/json, */*", ""])
async def test_a_client_that_accepts_anything_gets_json(api: Api, maps: str, accept: str) -> None:
    answer = await api.get(maps, accept=accept)
    assert answer.headers["content-type"] == "application/json"
    answer.ok(200)
