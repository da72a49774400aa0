"""CustomResourceDefinitions: from creation to served objects, and back."""

from typing import Any

import pytest

from tests.proofs.conformance.calls import Api, Document
from tests.proofs.conformance.definitions import OPEN_OBJECT, define, definition, widget
from tests.proofs.conformance.objects import DEFINITIONS


@pytest.fixture
def group(unique: str) -> str:
    """Return an API group of this test alone."""
    return f"{unique}.example.com"


def things(group: str, namespace: str, version: str = "v1") -> str:
    return f"/apis/{group}/{version}/namespaces/{namespace}/things"


def thing(group: str, name: str, version: str = "v1", **members: Any) -> Document:
    api_version = f"{group}/{version}"
    return {"apiVersion": api_version, "kind": "Thing", "metadata": {"name": name}, **members}


async def test_a_definition_is_established_and_served(
    api: Api, group: str, namespace: str
) -> None:
    path = things(group, namespace)
    assert (await api.get(path)).status == 404
    await define(api, definition(group, "Thing"))
    assert (await api.get(path)).ok(200)["kind"] == "ThingList"
    made = (await api.post(path, thing(group, "a", spec={"k": 1}))).ok(201)
    assert made["spec"] == {"k": 1}


async def test_the_status_shows_accepted_names_and_stored_versions(api: Api, group: str) -> None:
    await define(api, definition(group, "Thing"))
    seen = (await api.get(DEFINITIONS.path(name=f"things.{group}"))).ok()
    conditions = {one["type"]: one["status"] for one in seen["status"]["conditions"]}
    assert conditions["Established"] == "True"
    assert conditions["NamesAccepted"] == "True"
    assert seen["status"]["storedVersions"] == ["v1"]
    assert seen["status"]["acceptedNames"]["kind"] == "Thing"


async def test_a_custom_kind_appears_in_discovery(api: Api, group: str) -> None:
    made = definition(group, "Thing", subresources={"status": {}})
    made["spec"]["names"] |= {"shortNames": ["th"], "categories": ["all-things"]}
    await define(api, made)

    async def look() -> dict[str, Document]:
        answer = await api.get(f"/apis/{group}/v1")
        listed = answer.body["resources"] if answer.status == 200 else []
        return {one["name"]: one for one in listed}

    found = await api.until(look, lambda seen: "things/status" in seen)
    one = found["things"]
    assert (one["kind"], one["namespaced"], one["singularName"]) == ("Thing", True, "thing")
    assert (one["shortNames"], one["categories"]) == (["th"], ["all-things"])
    assert {"get", "list", "watch", "create", "update", "patch", "delete"} <= set(one["verbs"])


async def test_a_version_that_is_not_served_is_404(api: Api, group: str, namespace: str) -> None:
    made = definition(group, "Thing")
    other = {**made["spec"]["versions"][0], "name": "v2", "served": False, "storage": False}
    made["spec"]["versions"].append(other)
    await define(api, made)
    assert (await api.get(things(group, namespace, "v2"))).status == 404


async def test_every_served_version_shows_the_same_objects(
    api: Api, group: str, namespace: str
) -> None:
    made = definition(group, "Thing")
    made["spec"]["versions"].append(
        {**made["spec"]["versions"][0], "name": "v1beta1", "storage": False}
    )
    await define(api, made)
    (await api.post(things(group, namespace), thing(group, "a", spec={"k": 1}))).ok(201)
    seen = (await api.get(f"{things(group, namespace, 'v1beta1')}/a")).ok(200)
    assert seen["apiVersion"] == f"{group}/v1beta1"
    assert seen["spec"] == {"k": 1}


async def test_a_changed_schema_applies_to_the_next_write(
    api: Api, group: str, namespace: str
) -> None:
    await define(api, definition(group, "Thing"))
    (await api.post(things(group, namespace), thing(group, "a", size=99))).ok(201)
    bounded = {"type": "object", "properties": {"size": {"type": "integer", "maximum": 5}}}
    made = definition(group, "Thing", schema={"openAPIV3Schema": bounded})
    patch = {"spec": {"versions": made["spec"]["versions"]}}
    (await api.patch(DEFINITIONS.path(name=f"things.{group}"), patch)).ok(200)
    tried = thing(group, "b", size=99)

    async def refused() -> int:
        return (await api.post(things(group, namespace), tried, dryRun="All")).status

    await api.until(refused, lambda seen: seen == 422)
    assert (await api.get(f"{things(group, namespace)}/a")).ok(200)["size"] == 99


async def test_a_definition_deletes_its_objects(api: Api, group: str, namespace: str) -> None:
    await define(api, definition(group, "Thing"))
    (await api.post(things(group, namespace), thing(group, "a"))).ok(201)
    (await api.delete(DEFINITIONS.path(name=f"things.{group}"))).ok(200)
    await api.gone(DEFINITIONS.path(name=f"things.{group}"))
    await api.gone(things(group, namespace))
    await define(api, definition(group, "Thing"))
    assert (await api.get(things(group, namespace))).ok()["items"] == []


async def test_an_object_with_a_finalizer_holds_the_definition(
    api: Api, group: str, namespace: str
) -> None:
    await define(api, definition(group, "Thing"))
    body = thing(group, "a")
    body["metadata"]["finalizers"] = ["example.com/a"]
    (await api.post(things(group, namespace), body)).ok(201)
    (await api.delete(DEFINITIONS.path(name=f"things.{group}"))).ok(200)
    path = f"{things(group, namespace)}/a"
    await api.settled(path, lambda seen: "deletionTimestamp" in seen["metadata"])
    (await api.get(DEFINITIONS.path(name=f"things.{group}"))).ok(200)
    (await api.patch(path, {"metadata": {"finalizers": None}})).ok(200)
    await api.gone(DEFINITIONS.path(name=f"things.{group}"))


async def test_a_version_other_than_the_paths_is_400(api: Api, widgets: str) -> None:
    answer = await api.post(widgets, {**widget("a"), "apiVersion": "conformance.example.com/v2"})
    assert answer.refusal == (400, "BadRequest")


async def test_a_kind_other_than_the_paths_is_invalid(api: Api, widgets: str) -> None:
    answer = await api.post(widgets, {**widget("a"), "kind": "Gadget"})
    assert answer.causes == {("kind", "FieldValueInvalid")}


def without_schema(made: Document) -> None:
    del made["spec"]["versions"][0]["schema"]


def misnamed(made: Document) -> None:
    made["metadata"]["name"] = "other.example.com"


def doubly_stored(made: Document) -> None:
    made["spec"]["versions"].append({**made["spec"]["versions"][0], "name": "v2"})


def without_type(made: Document) -> None:
    made["spec"]["versions"][0]["schema"] = {"openAPIV3Schema": {"properties": {"a": {}}}}


def with_bad_default(made: Document) -> None:
    bad = {"type": "object", "properties": {"a": {"type": "integer", "default": "x"}}}
    made["spec"]["versions"][0]["schema"] = {"openAPIV3Schema": bad}


def with_unknown_scope(made: Document) -> None:
    made["spec"]["scope"] = "Galaxy"


def without_kind(made: Document) -> None:
    made["spec"]["names"]["kind"] = ""


# With a single version the server reports faults at v1beta1's path of the schema.
SCHEMA = "spec.validation.openAPIV3Schema"


@pytest.mark.parametrize(
    ("spoil", "cause"),
    [
        (without_schema, ("spec.versions[0].schema.openAPIV3Schema", "FieldValueRequired")),
        (misnamed, ("metadata.name", "FieldValueInvalid")),
        (doubly_stored, ("spec.versions", "FieldValueInvalid")),
        (without_type, (f"{SCHEMA}.type", "FieldValueRequired")),
        (with_bad_default, (f"{SCHEMA}.properties[a].default", "FieldValueTypeInvalid")),
        (with_unknown_scope, ("spec.scope", "FieldValueNotSupported")),
        (without_kind, ("spec.names.kind", "FieldValueRequired")),
    ],
    ids=[
        "no schema",
        "other name",
        "two stored versions",
        "no type",
        "invalid default",
        "unknown scope",
        "no kind",
    ],
)
async def test_an_invalid_definition_is_refused(
    api: Api, group: str, spoil: Any, cause: tuple[str, str]
) -> None:
    made = definition(group, "Thing")
    spoil(made)
    assert cause in (await api.post(DEFINITIONS.path(), made)).causes


async def test_names_of_another_definition_are_not_accepted(
    api: Api, group: str, namespace: str
) -> None:
    await define(api, definition(group, "Thing"))
    rival = definition(group, "Thing", plural="thingies")
    (await api.post(DEFINITIONS.path(), rival)).ok(201)

    def is_refused(seen: Document) -> bool:
        conditions = seen.get("status", {}).get("conditions") or []
        return any(
            (one["type"], one["status"]) == ("NamesAccepted", "False") for one in conditions
        )

    await api.settled(DEFINITIONS.path(name=f"thingies.{group}"), is_refused)
    assert (await api.get(f"/apis/{group}/v1/namespaces/{namespace}/thingies")).status == 404


async def test_the_scope_of_a_definition_cannot_change(api: Api, group: str) -> None:
    await define(api, definition(group, "Thing", schema={"openAPIV3Schema": OPEN_OBJECT}))
    patch = {"spec": {"scope": "Cluster"}}
    answer = await api.patch(DEFINITIONS.path(name=f"things.{group}"), patch)
    assert ("spec.scope", "FieldValueInvalid") in answer.causes
