"""fieldValidation: unknown and duplicate fields are refused, warned about or ignored."""

import pytest

from tests.proofs.conformance.calls import Api
from tests.proofs.conformance.definitions import widget
from tests.proofs.conformance.objects import DEPLOYMENTS, config_map, deployment

DOUBLE = b"""{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"},
"data": {"k": "v", "k": "w"}}"""


async def test_strict_refuses_an_unknown_field_of_a_built_in_kind(api: Api, maps: str) -> None:
    body = {**config_map("a"), "unknown": 1}
    answer = await api.post(maps, body, fieldValidation="Strict")
    assert answer.refusal == (400, "BadRequest")
    assert 'unknown field "unknown"' in answer.body["message"]


async def test_strict_refuses_an_unknown_field_of_a_custom_kind(api: Api, widgets: str) -> None:
    body = widget("a", nested={"other": 1})
    answer = await api.post(widgets, body, fieldValidation="Strict")
    assert answer.refusal == (400, "BadRequest")
    assert 'unknown field "spec.nested.other"' in answer.body["message"]


async def test_strict_refuses_unknown_metadata_of_a_custom_kind(api: Api, widgets: str) -> None:
    body = widget("a", metadata={"unknown": 1})
    answer = await api.post(widgets, body, fieldValidation="Strict")
    assert answer.refusal == (400, "BadRequest")


async def test_strict_names_a_field_deep_in_a_list(api: Api, namespace: str) -> None:
    body = deployment("d")
    body["spec"]["template"]["spec"]["containers"][0]["imagee"] = "x"
    path = DEPLOYMENTS.path(namespace=namespace)
    answer = await api.post(path, body, fieldValidation="Strict")
    assert answer.refusal == (400, "BadRequest")
    expected = 'unknown field "spec.template.spec.containers[0].imagee"'
    assert expected in answer.body["message"]


async def test_strict_refuses_a_duplicate_field(api: Api, maps: str) -> None:
    answer = await api.post(maps, DOUBLE, fieldValidation="Strict")
    assert answer.refusal == (400, "BadRequest")
    assert 'duplicate field "data.k"' in answer.body["message"]


async def test_strict_accepts_a_clean_object(api: Api, widgets: str) -> None:
    body = widget("a", anything={"of": "any kind"})
    (await api.post(widgets, body, fieldValidation="Strict")).ok(201)


@pytest.mark.parametrize("query", [{"fieldValidation": "Warn"}, {}], ids=["warn", "default"])
async def test_a_warning_names_the_field_and_the_object_is_created(
    api: Api, widgets: str, query: dict[str, str]
) -> None:
    answer = await api.post(widgets, widget("a", unknown=1), **query)
    assert "unknown" not in answer.ok(201)["spec"]
    assert answer.headers["warning"] == '299 - "unknown field \\"spec.unknown\\""'


async def test_ignore_sends_no_warning(api: Api, widgets: str) -> None:
    answer = await api.post(widgets, widget("a", unknown=1), fieldValidation="Ignore")
    assert "unknown" not in answer.ok(201)["spec"]
    assert "warning" not in answer.headers


async def test_strict_applies_to_a_merge_patch(api: Api, widgets: str) -> None:
    (await api.post(widgets, widget("a"))).ok(201)
    patch = {"spec": {"unknown": 1}}
    answer = await api.patch(f"{widgets}/a", patch, fieldValidation="Strict")
    assert answer.refusal in {(422, "Invalid"), (400, "BadRequest")}
    (await api.patch(f"{widgets}/a", patch, fieldValidation="Ignore")).ok(200)


async def test_strict_applies_to_a_replacement(api: Api, maps: str) -> None:
    seen = (await api.post(maps, config_map("a"))).ok(201)
    answer = await api.put(f"{maps}/a", {**seen, "unknown": 1}, fieldValidation="Strict")
    assert answer.refusal == (400, "BadRequest")


async def test_an_unknown_value_of_field_validation_is_refused(api: Api, maps: str) -> None:
    answer = await api.post(maps, config_map("a"), fieldValidation="Pedantic")
    assert answer.causes == {("fieldValidation", "FieldValueNotSupported")}
