"""Invalid requests: each is refused with a status code, a reason and a Status body."""

import pytest

from tests.proofs.conformance.calls import STRATEGIC_PATCH, Api
from tests.proofs.conformance.definitions import widget
from tests.proofs.conformance.objects import config_map


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b'"text"',
        b'{"apiVersion": "v1", "kind": "ConfigMap"} trailing',
        b'{"apiVersion": "v1", "kind": "Nothing", "metadata": {"name": "a"}}',
        b'{"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}}',
        b'{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": 1}}',
        b'{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": 1}}',
        b'{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": []}',
    ],
    ids=lambda body: body.decode()[-40:] or "empty",
)
async def test_a_body_of_another_form_or_kind_is_400(api: Api, maps: str, body: bytes) -> None:
    answer = await api.post(maps, body)
    assert answer.refusal == (400, "BadRequest")


@pytest.mark.parametrize("missing", ["apiVersion", "kind"])
async def test_a_built_in_object_may_omit_kind_or_version(
    api: Api, maps: str, missing: str
) -> None:
    body = config_map("a")
    del body[missing]
    assert (await api.post(maps, body)).ok(201)["kind"] == "ConfigMap"


@pytest.mark.parametrize("missing", ["apiVersion", "kind"])
async def test_a_custom_object_must_name_kind_and_version(
    api: Api, widgets: str, missing: str
) -> None:
    body = widget("a")
    del body[missing]
    assert (await api.post(widgets, body)).refusal == (400, "BadRequest")


@pytest.mark.parametrize("content_type", ["text/plain", "application/xml", "garbage"])
async def test_a_body_of_another_media_type_is_415(api: Api, maps: str, content_type: str) -> None:
    answer = await api.call("POST", maps, config_map("a"), content_type=content_type)
    assert answer.refusal == (415, "UnsupportedMediaType")


async def test_yaml_is_accepted(api: Api, maps: str) -> None:
    body = b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {k: v}\n"
    answer = await api.call("POST", maps, body, content_type="application/yaml")
    assert answer.ok(201)["data"] == {"k": "v"}


async def test_a_charset_in_the_media_type_is_accepted(api: Api, maps: str) -> None:
    content_type = "application/json; charset=utf-8"
    (await api.call("POST", maps, config_map("a"), content_type=content_type)).ok(201)


@pytest.mark.parametrize("content_type", ["application/json", "text/plain"])
async def test_an_unknown_patch_type_is_415(api: Api, maps: str, content_type: str) -> None:
    (await api.post(maps, config_map("a"))).ok(201)
    answer = await api.patch(f"{maps}/a", {"data": {}}, content_type=content_type)
    assert answer.refusal == (415, "UnsupportedMediaType")


@pytest.mark.parametrize("content_type", ["application/merge-patch+json", STRATEGIC_PATCH])
async def test_a_patch_that_is_not_json_is_400(api: Api, maps: str, content_type: str) -> None:
    (await api.post(maps, config_map("a"))).ok(201)
    answer = await api.patch(f"{maps}/a", b"{", content_type=content_type)
    assert answer.refusal == (400, "BadRequest")


async def test_a_body_beyond_the_size_limit_is_413(api: Api, maps: str) -> None:
    answer = await api.post(maps, config_map("a", {"k": "x" * (3 * 1024 * 1024)}))
    assert answer.refusal == (413, "RequestEntityTooLarge")


async def test_a_config_map_beyond_its_own_limit_is_invalid(api: Api, maps: str) -> None:
    answer = await api.post(maps, config_map("a", {"k": "x" * (1024 * 1024 + 1)}))
    assert answer.causes == {("[]", "FieldValueTooLong")}


@pytest.mark.parametrize(
    "path",
    [
        "/nowhere",
        "/api/v2/configmaps",
        "/api/v1/nothings",
        "/apis/nowhere.example.com/v1/things",
        "/apis/apps/v9/deployments",
        "/apis/apps/v1/configmaps",
    ],
)
async def test_an_unserved_path_is_404(api: Api, path: str) -> None:
    assert (await api.get(path)).status == 404


@pytest.mark.parametrize(
    ("method", "suffix"),
    [("PUT", ""), ("PATCH", ""), ("POST", "/a")],
    ids=["put-collection", "patch-collection", "post-object"],
)
async def test_a_method_on_the_wrong_path_is_405(
    api: Api, maps: str, method: str, suffix: str
) -> None:
    content_type = "application/merge-patch+json" if method == "PATCH" else "application/json"
    answer = await api.call(method, maps + suffix, config_map("a"), content_type=content_type)
    assert answer.refusal == (405, "MethodNotAllowed")


async def test_an_absent_name_is_404_with_details(api: Api, maps: str) -> None:
    answer = await api.get(f"{maps}/nothing")
    assert answer.refusal == (404, "NotFound")
    assert answer.body["details"] == {"name": "nothing", "kind": "configmaps"}
    assert answer.body["message"] == 'configmaps "nothing" not found'


async def test_an_absent_custom_object_is_404_with_its_group(api: Api, widgets: str) -> None:
    answer = await api.get(f"{widgets}/nothing")
    assert answer.refusal == (404, "NotFound")
    assert answer.body["details"] == {
        "name": "nothing",
        "group": "conformance.example.com",
        "kind": "widgets",
    }


async def test_a_cluster_scoped_kind_has_no_namespaces(api: Api, gadgets: str) -> None:
    path = gadgets.replace("/gadgets", "/namespaces/default/gadgets")
    assert (await api.get(path)).status == 404


async def test_an_unserved_subresource_is_404(api: Api, maps: str) -> None:
    (await api.post(maps, config_map("a"))).ok(201)
    assert (await api.get(f"{maps}/a/scale")).status == 404


async def test_a_limit_that_is_not_a_number_is_400(api: Api, maps: str) -> None:
    assert (await api.get(maps, limit="many")).refusal == (400, "BadRequest")


async def test_an_unknown_dry_run_is_invalid(api: Api, maps: str) -> None:
    answer = await api.post(maps, config_map("a"), dryRun="Some")
    assert answer.causes == {("dryRun", "FieldValueNotSupported")}
