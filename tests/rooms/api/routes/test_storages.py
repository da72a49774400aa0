"""Storages over HTTP: refusals with their codes, and the versions that changes need."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.rooms.api.service import STORAGES, UNITS, Answer, Service, service
from tests.rooms.operations.cluster import Cluster
from tests.row_ids import in_words

STORAGE = f"{STORAGES}/models"


@pytest.fixture
async def api() -> AsyncIterator[Service]:
    cluster = Cluster()
    cluster.add_stock(2)
    async with service(cluster) as served:
        yield served


async def make(api: Service, **members: Any) -> Answer:
    return await api.call("POST", STORAGES, {"name": "models", "size": "10Gi", **members})


BAD_STORAGES: list[tuple[dict[str, Any], list[str]]] = [
    ({"size": "0"}, ["size"]),
    ({"size": "-1Gi"}, ["size"]),
    ({"size": "1e999"}, ["size"]),
    ({"size": "1Ei"}, ["size"]),
    ({"size": 10}, ["size"]),
    ({"size": "10GiB"}, ["size"]),
    ({"name": "op-mine"}, ["name"]),
    ({"name": "a.b"}, ["name"]),
    ({"namespace": "other"}, ["namespace"]),
    ({"storageClassName": "a..b"}, ["storageClassName"]),
    ({"storageClassName": "a" * 254}, ["storageClassName"]),
    ({"operationID": "gpuruntime:mine"}, ["operationID"]),
    ({"tenant": "a b"}, ["tenant"]),
    ({"prepare": {}}, ["prepare"]),
    ({"prepare": {"fromImage": "a:1"}}, ["prepare.fromImage"]),
    ({"prepare": {"fromImage": "a:1", "args": ["\0"]}}, ["prepare.args[0]"]),
    ({"prepare": {"fromImage": "a:1", "fromStorageName": "b", "args": ["x"]}}, ["prepare"]),
    ({"prepare": {"fromStorageName": "b", "args": ["x"]}}, ["prepare.fromStorageName"]),
    ({"prepare": {"fromStorageName": "models"}}, ["prepare.fromStorageName"]),
    ({"accessor": {"enabled": "yes"}}, ["accessor.enabled"]),
    (
        {"size": 1, "more": 1, "prepare": {"more": 1}, "accessor": {"writable": 1}},
        ["size", "more", "prepare.more", "accessor.writable"],
    ),
]


@pytest.mark.parametrize(("members", "fields"), BAD_STORAGES, ids=in_words)
async def test_a_bad_storage_is_refused_by_every_field_at_fault(
    api: Service, members: dict[str, Any], fields: list[str]
) -> None:
    answer = await make(api, **members)
    assert (answer.status, answer.code) == (400, "invalid_request")
    assert sorted(answer.fields) == sorted(fields)


async def test_a_storage_needs_a_name_or_an_operation_to_derive_one_from(api: Service) -> None:
    answer = await api.call("POST", STORAGES, {"size": "1Gi"})
    assert (answer.status, answer.fields) == (400, ["name"])
    derived = await api.call("POST", STORAGES, {"size": "1Gi", "operationID": "made"})
    assert derived.data["name"].startswith("op-")


async def test_an_impossible_storage_class_is_refused_with_a_reason(api: Service) -> None:
    answer = await make(api, storageClassName="a..b")
    (detail,) = answer.body["error"]["details"]
    assert detail["message"] == "must be the name of a class: DNS labels with a '.' between them"


async def test_an_operation_is_replayed_for_the_same_request_only(api: Service) -> None:
    first = await make(api, operationID="o")
    again = await make(api, operationID="o")
    assert (first.status, again.status) == (201, 200)
    assert again.headers["Idempotent-Replay"] == "true"
    for other in ({"size": "11Gi"}, {"name": "other"}):
        answer = await make(api, operationID="o", **other)
        assert (answer.status, answer.code) == (409, "operation_conflict")
    assert (await make(api, operationID="p")).code == "name_taken"
    assert (await make(api)).code == "name_taken"


async def test_an_operation_creates_one_kind_of_object(api: Service) -> None:
    assert (await api.create(name="demo", operationID="of-a-unit")).status == 201
    answer = await make(api, operationID="of-a-unit")
    assert (answer.status, answer.code) == (409, "operation_conflict")
    assert (await make(api, operationID="of-a-storage")).status == 201
    unit = await api.create(name="other", operationID="of-a-storage")
    assert (unit.status, unit.code) == (409, "operation_conflict")


async def test_an_operation_whose_storage_was_deleted_is_finished(api: Service) -> None:
    await make(api, operationID="o")
    assert (await api.call("DELETE", STORAGE)).status == 204
    assert (await make(api, operationID="o")).code == "operation_finished"
    assert (await api.create(operationID="o")).code == "operation_finished"


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "", None),
        ("PUT", "", {"size": "1Gi"}),
        ("DELETE", "", None),
        ("POST", "/recover", None),
        ("GET", "/files/a", None),
    ],
    ids=in_words,
)
@pytest.mark.parametrize("name", ["nobody", "Not-A-Name", "x" * 64])
async def test_a_missing_storage_is_404_with_its_code(
    api: Service, method: str, path: str, body: object, name: str
) -> None:
    answer = await api.call(method, f"{STORAGES}/{name}{path}", body)
    assert (answer.status, answer.code) == (404, "gpustorage_not_found")


async def test_a_storage_can_grow_and_nothing_else_changes(api: Service) -> None:
    await make(api)
    for body, field in (
        ({"size": "9Gi"}, "size"),
        ({"size": None}, "size"),
        ({"storageClassName": "fast"}, "storageClassName"),
        ({"prepare": None}, "prepare"),
    ):
        answer = await api.call("PUT", STORAGE, body)
        assert (answer.status, answer.fields) == (400, [field])
    assert (await api.call("PUT", STORAGE, {"size": "11Gi"})).data["size"] == "11Gi"


async def test_a_mounted_storage_is_not_deleted_and_the_error_names_the_unit(
    api: Service,
) -> None:
    await make(api)
    mounts = [{"name": "models", "mountPath": "/models"}]
    assert (await api.create(name="demo", storageMounts=mounts)).status == 201
    answer = await api.call("DELETE", STORAGE)
    assert (answer.status, answer.code) == (409, "storage_in_use")
    assert "demo" in answer.body["error"]["message"]
    assert (await api.call("DELETE", f"{UNITS}/demo")).status == 204
    assert (await api.call("DELETE", STORAGE)).status == 204


async def test_only_a_failed_prepare_can_be_recovered(api: Service) -> None:
    await make(api)
    answer = await api.call("POST", f"{STORAGE}/recover")
    assert (answer.status, answer.code) == (409, "nothing_to_recover")


async def test_a_change_needs_the_version_in_if_match(api: Service) -> None:
    etag = (await make(api)).headers["ETag"]
    assert (await api.call("GET", STORAGE)).headers["ETag"] == etag
    stale = {"If-Match": etag}
    changed = await api.call("PUT", STORAGE, {"size": "11Gi"}, headers=stale)
    assert changed.status == 200
    refused = await api.call("PUT", STORAGE, {"size": "12Gi"}, headers=stale)
    assert (refused.status, refused.code) == (412, "precondition_failed")
    read = await api.call("GET", STORAGE)
    assert (read.data["size"], read.headers["ETag"]) == ("11Gi", changed.headers["ETag"])


async def test_a_deletion_needs_the_version_in_if_match(api: Service) -> None:
    etag = (await make(api)).headers["ETag"]
    written = api.replica.transport.written()
    refused = await api.call("DELETE", STORAGE, headers={"If-Match": '"nope"'})
    assert (refused.status, refused.code) == (412, "precondition_failed")
    assert api.replica.transport.written() == written
    assert (await api.call("DELETE", STORAGE, headers={"If-Match": etag})).status == 204
    assert (await api.call("GET", STORAGE)).status == 404


async def test_pages_go_on_after_a_storage_that_was_deleted_meanwhile(api: Service) -> None:
    for name in ("a", "b", "c", "d"):
        await make(api, name=name)
    first = await api.call("GET", f"{STORAGES}?limit=2")
    await api.call("DELETE", f"{STORAGES}/b")
    rest = await api.call("GET", f"{STORAGES}?cursor={first.body['next']}")
    assert [each["name"] for each in rest.data] == ["c", "d"]
    assert rest.body["next"] == ""
