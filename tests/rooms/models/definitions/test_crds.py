"""The definitions contain what operators and servers rely on, and the repository has a copy."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpuruntime.models.definitions.crds import crds, render
from gpuruntime.models.definitions.schemas import StructuralSchema

CHECKED_IN = Path(__file__).parents[4] / "manifests/crds/gpuruntime.yaml"
DOCUMENTS = {crd["spec"]["names"]["kind"]: crd for crd in yaml.safe_load_all(render())}
KINDS = sorted(DOCUMENTS)


def version_of(kind: str) -> dict[str, Any]:
    (version,) = DOCUMENTS[kind]["spec"]["versions"]
    return dict(version)


def schema_of(kind: str) -> StructuralSchema:
    return dict(version_of(kind)["schema"]["openAPIV3Schema"])


def nodes(schema: StructuralSchema, path: str = "") -> Iterator[tuple[str, StructuralSchema]]:
    yield path, schema
    for name, member in schema.get("properties", {}).items():
        yield from nodes(member, f"{path}.{name}")
    if "items" in schema:
        yield from nodes(schema["items"], f"{path}[]")


def test_the_copy_in_the_repository_is_up_to_date() -> None:
    assert CHECKED_IN.read_text() == render(), (
        "write it anew: gpuruntime crds > manifests/crds/gpuruntime.yaml"
    )


def test_the_text_reads_back_as_the_definitions() -> None:
    assert tuple(yaml.safe_load_all(render())) == crds()


def test_the_text_has_no_anchors() -> None:
    assert "&id" not in render()


@pytest.mark.parametrize(
    ("kind", "plural", "short"),
    [
        ("GPUUnit", "gpuunits", "gu"),
        ("StockPool", "stockpools", "sp"),
    ],
)
def test_a_kind_is_known_by_its_names(kind: str, plural: str, short: str) -> None:
    crd = DOCUMENTS[kind]

    assert crd["metadata"] == {"name": f"{plural}.runtime.lokiwager.io"}
    assert crd["spec"]["scope"] == "Namespaced"
    assert crd["spec"]["names"] == {
        "kind": kind,
        "listKind": f"{kind}List",
        "plural": plural,
        "singular": kind.lower(),
        "shortNames": [short],
        "categories": ["gpuruntime"],
    }


@pytest.mark.parametrize("kind", KINDS)
def test_the_one_version_is_served_with_a_status_of_its_own(kind: str) -> None:
    version = version_of(kind)

    assert (version["name"], version["served"], version["storage"]) == ("v1alpha1", True, True)
    assert version["subresources"] == {"status": {}}


def test_the_columns_of_a_unit() -> None:
    columns = version_of("GPUUnit")["additionalPrinterColumns"]

    assert [(each["name"], each.get("priority", 0)) for each in columns] == [
        ("Spec", 0),
        ("Phase", 0),
        ("Access", 0),
        ("Node", 1),
        ("Age", 0),
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_every_column_shows_a_member_of_the_schema(kind: str) -> None:
    paths = {path for path, _ in nodes(schema_of(kind))} | {".metadata.creationTimestamp"}

    for column in version_of(kind)["additionalPrinterColumns"]:
        assert column["jsonPath"] in paths


@pytest.mark.parametrize("kind", KINDS)
def test_every_member_has_a_type_and_a_bound(kind: str) -> None:
    for path, node in nodes(schema_of(kind)):
        if path in (".apiVersion", ".kind", ".metadata.name"):
            continue
        match node["type"]:
            case "string":
                assert {"maxLength", "enum", "format"} & node.keys(), path
            case "array":
                assert "maxItems" in node, path
            case "integer" if path.startswith(".spec"):
                assert {"minimum", "maximum"} <= node.keys(), path
            case "object":
                values = node.get("additionalProperties")
                assert values is None or "maxProperties" in node, path
                assert values is None or "maxLength" in values, path
            case _:
                continue


@pytest.mark.parametrize("kind", KINDS)
def test_every_rule_points_at_a_member_and_says_why(kind: str) -> None:
    tree = dict(nodes(schema_of(kind)))
    for path, node in tree.items():
        for rule in node.get("x-kubernetes-validations", []):
            assert path + rule.get("fieldPath", "") in tree
            assert rule["message"]
            assert rule["reason"] in (
                "FieldValueInvalid",
                "FieldValueForbidden",
                "FieldValueRequired",
            )
