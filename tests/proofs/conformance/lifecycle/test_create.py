"""POST: what the server adds to a new object, and what it refuses."""

from datetime import datetime
from typing import Any

import pytest

from tests.proofs.conformance.calls import Api
from tests.proofs.conformance.objects import (
    CONFIG_MAPS,
    NAMESPACES,
    PRIORITY_CLASSES,
    SECRETS,
    config_map,
    named,
)


async def test_a_new_object_gets_its_identity_from_the_server(api: Api, maps: str) -> None:
    made = (await api.post(maps, config_map("a", {"k": "v"}))).ok(201)
    metadata = made["metadata"]
    assert made["kind"] == "ConfigMap"
    assert made["apiVersion"] == "v1"
    assert made["data"] == {"k": "v"}
    assert len(metadata["uid"]) == 36
    assert int(metadata["resourceVersion"]) > 0
    assert datetime.fromisoformat(metadata["creationTimestamp"]).tzinfo


async def test_the_answer_equals_what_is_read_afterwards(api: Api, maps: str) -> None:
    made = (await api.post(maps, config_map("a", {"k": "v"}))).ok(201)
    assert (await api.get(f"{maps}/a")).ok(200) == made


async def test_a_client_cannot_set_uid_and_creation_time(api: Api, maps: str) -> None:
    given: dict[str, Any] = {"uid": "mine", "creationTimestamp": "2001-01-01T00:00:00Z"}
    made = (await api.post(maps, config_map("a", **given))).ok(201)["metadata"]
    assert made["uid"] != "mine"
    assert not made["creationTimestamp"].startswith("2001")


async def test_the_namespace_of_the_path_is_filled_in(api: Api, namespace: str, maps: str) -> None:
    made = (await api.post(maps, config_map("a"))).ok(201)
    assert made["metadata"]["namespace"] == namespace


async def test_a_namespace_other_than_the_paths_is_400(api: Api, maps: str) -> None:
    answer = await api.post(maps, config_map("a", namespace="default"))
    assert answer.refusal == (400, "BadRequest")


async def test_an_object_in_an_absent_namespace_is_404(api: Api) -> None:
    answer = await api.post(CONFIG_MAPS.path(namespace="nowhere"), config_map("a"))
    assert answer.refusal == (404, "NotFound")
    assert answer.body["details"] == {"name": "nowhere", "kind": "namespaces"}


async def test_a_taken_name_is_already_exists(api: Api, maps: str) -> None:
    (await api.post(maps, config_map("a"))).ok(201)
    answer = await api.post(maps, config_map("a"))
    assert answer.refusal == (409, "AlreadyExists")
    assert answer.body["details"] == {"name": "a", "kind": "configmaps"}


async def test_the_same_name_is_free_in_another_namespace_and_kind(
    api: Api, namespace: str, maps: str
) -> None:
    (await api.post(maps, config_map("a"))).ok(201)
    (await api.post(CONFIG_MAPS.path(namespace="default"), config_map(namespace))).ok(201)
    (await api.post(SECRETS.path(namespace=namespace), named(SECRETS, "a"))).ok(201)


async def test_a_resource_version_on_a_new_object_is_refused(api: Api, maps: str) -> None:
    answer = await api.post(maps, config_map("a", resourceVersion="1"))
    assert answer.status == 500
    assert "resourceVersion should not be set" in answer.body["message"]


async def test_an_object_without_a_name_is_invalid(api: Api, maps: str) -> None:
    answer = await api.post(maps, {"apiVersion": "v1", "kind": "ConfigMap"})
    assert answer.causes == {("metadata.name", "FieldValueRequired")}


@pytest.mark.parametrize(
    "name", ["Upper", "under_score", "-first", "last-", "a..b", "x" * 254], ids=str
)
async def test_a_name_that_is_not_a_dns_subdomain_is_invalid(
    api: Api, maps: str, name: str
) -> None:
    answer = await api.post(maps, config_map(name))
    assert answer.causes == {("metadata.name", "FieldValueInvalid")}


@pytest.mark.parametrize("name", ["a.b", "x" * 64, "1"], ids=str)
async def test_a_config_map_accepts_any_dns_subdomain(api: Api, maps: str, name: str) -> None:
    (await api.post(maps, config_map(name))).ok(201)


@pytest.mark.parametrize("name", ["a.b", "x" * 64], ids=str)
async def test_a_namespace_accepts_only_a_dns_label(api: Api, name: str) -> None:
    answer = await api.post(NAMESPACES.path(), named(NAMESPACES, name))
    assert ("metadata.name", "FieldValueInvalid") in answer.causes


@pytest.mark.parametrize(
    ("metadata", "field"),
    [
        ({"labels": {"-bad": "v"}}, "metadata.labels"),
        ({"labels": {"a/b/c": "v"}}, "metadata.labels"),
        ({"labels": {"key": "not valid"}}, "metadata.labels"),
        ({"labels": {"key": "v" * 64}}, "metadata.labels"),
        ({"annotations": {"bad key": "v"}}, "metadata.annotations"),
        ({"finalizers": ["no-domain!"]}, "metadata.finalizers"),
    ],
    ids=str,
)
async def test_malformed_metadata_is_invalid(
    api: Api, maps: str, metadata: dict[str, Any], field: str
) -> None:
    answer = await api.post(maps, config_map("a", **metadata))
    assert (field, "FieldValueInvalid") in answer.causes


async def test_annotations_have_a_total_size_limit(api: Api, maps: str) -> None:
    answer = await api.post(maps, config_map("a", annotations={"a": "x" * (256 * 1024)}))
    assert answer.causes == {("metadata.annotations", "FieldValueTooLong")}


async def test_a_generated_name_begins_with_its_prefix(api: Api, maps: str) -> None:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "gen-"}}
    names = {(await api.post(maps, body)).ok(201)["metadata"]["name"] for _ in range(5)}
    assert len(names) == 5
    assert all(name.startswith("gen-") and len(name) == len("gen-") + 5 for name in names)


async def test_a_given_name_takes_precedence_over_a_prefix(api: Api, maps: str) -> None:
    made = (await api.post(maps, config_map("a", generateName="gen-"))).ok(201)
    assert made["metadata"]["name"] == "a"
    assert made["metadata"]["generateName"] == "gen-"


async def test_a_long_prefix_is_cut_so_that_the_name_fits(api: Api, maps: str) -> None:
    prefix = "p" * 63
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": prefix}}
    name = (await api.post(maps, body)).ok(201)["metadata"]["name"]
    assert len(name) == 63
    assert name.startswith("p" * 58)


async def test_a_dry_run_answers_and_stores_nothing(api: Api, maps: str) -> None:
    made = (await api.post(maps, config_map("a"), dryRun="All")).ok(201)
    assert made["metadata"]["uid"]
    assert (await api.get(f"{maps}/a")).refusal == (404, "NotFound")


async def test_an_owner_reference_without_uid_is_invalid(api: Api, maps: str) -> None:
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "b", "uid": ""}
    answer = await api.post(maps, config_map("a", ownerReferences=[reference]))
    assert answer.causes == {("metadata.ownerReferences.uid", "FieldValueInvalid")}


async def test_two_controlling_owners_are_invalid(api: Api, maps: str) -> None:
    references = [
        {"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": name, "controller": True}
        for name in ("b", "c")
    ]
    answer = await api.post(maps, config_map("a", ownerReferences=references))
    assert answer.causes == {("metadata.ownerReferences", "FieldValueInvalid")}


async def test_a_post_to_the_path_of_an_object_is_405(api: Api, maps: str) -> None:
    answer = await api.post(f"{maps}/a", config_map("a"))
    assert answer.refusal == (405, "MethodNotAllowed")


async def test_text_of_a_secret_is_stored_as_base64(api: Api, namespace: str) -> None:
    secrets = SECRETS.path(namespace=namespace)
    made = (await api.post(secrets, named(SECRETS, "a", stringData={"k": "plain"}))).ok(201)
    assert made["data"] == {"k": "cGxhaW4="}
    assert "stringData" not in made
    assert made["type"] == "Opaque"


async def test_a_cluster_scoped_object_has_no_namespace(api: Api, unique: str) -> None:
    body = named(PRIORITY_CLASSES, unique, value=-5, preemptionPolicy="Never")
    made = (await api.post(PRIORITY_CLASSES.path(), body)).ok(201)
    assert "namespace" not in made["metadata"]
