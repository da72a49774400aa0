from typing import Any

import pytest

from gpuruntime.embedded.apiserver.patches import UnfitPatchError, json_patch, merge_patch
from gpuruntime.embedded.apiserver.strategic_patch import strategic_patch
from gpuruntime.embedded.schemas.go_types import go_structs


@pytest.mark.parametrize(
    ("value", "patch", "merged"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
    ids=str,
)
def test_a_merge_patch_follows_its_standard(value: Any, patch: Any, merged: Any) -> None:
    assert merge_patch(value, patch) == merged


@pytest.mark.parametrize(
    ("operation", "patched"),
    [
        ({"op": "add", "path": "/l/1", "value": 9}, {"l": [1, 9, 2], "a/b": 0}),
        ({"op": "add", "path": "/l/-", "value": 9}, {"l": [1, 2, 9], "a/b": 0}),
        ({"op": "remove", "path": "/l/0"}, {"l": [2], "a/b": 0}),
        ({"op": "replace", "path": "/a~1b", "value": 5}, {"l": [1, 2], "a/b": 5}),
        ({"op": "move", "from": "/a~1b", "path": "/c"}, {"l": [1, 2], "c": 0}),
        ({"op": "copy", "from": "/l", "path": "/c"}, {"l": [1, 2], "c": [1, 2], "a/b": 0}),
        ({"op": "test", "path": "/l", "value": [1, 2]}, {"l": [1, 2], "a/b": 0}),
        ({"op": "replace", "path": "", "value": {}}, {}),
    ],
    ids=str,
)
def test_a_json_patch_follows_its_standard(operation: Any, patched: Any) -> None:
    assert json_patch({"l": [1, 2], "a/b": 0}, [operation]) == patched


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "remove", "path": "/nothing"},
        {"op": "replace", "path": "/nothing", "value": 1},
        {"op": "add", "path": "/l/7", "value": 1},
        {"op": "add", "path": "/l/x", "value": 1},
        {"op": "test", "path": "/l", "value": []},
        {"op": "turn", "path": "/l"},
        {"op": "add", "path": "l", "value": 1},
        {"op": "add", "path": "/l"},
        {"op": "remove", "path": None},
        {"op": "remove", "path": "/l/0/x"},
        {},
        5,
    ],
    ids=str,
)
def test_a_json_patch_that_does_not_fit_is_an_error(operation: Any) -> None:
    with pytest.raises(UnfitPatchError):
        json_patch({"l": [1, 2]}, [operation])


def containers(*names: str) -> list[dict[str, str]]:
    return [{"name": name} for name in names]


@pytest.mark.parametrize(
    ("patch", "order"),
    [
        ({"containers": containers("c")}, ["a", "b", "c"]),
        ({"containers": containers("c", "a")}, ["b", "c", "a"]),
        ({"containers": containers("new")}, ["new", "a", "b", "c"]),
        ({"$setElementOrder/containers": containers("c", "a")}, ["b", "c", "a"]),
    ],
    ids=str,
)
def test_a_strategic_patch_orders_the_items_that_it_names(patch: Any, order: list[str]) -> None:
    before = {"containers": containers("a", "b", "c")}
    after = strategic_patch(before, patch, go_structs()["PodSpec"])
    assert [each["name"] for each in after["containers"]] == order


def test_a_volume_that_changes_its_source_keeps_no_other() -> None:
    before = {"volumes": [{"name": "v", "emptyDir": {}}]}
    change = {"name": "v", "$retainKeys": ["name", "configMap"], "configMap": {"name": "c"}}
    after = strategic_patch(before, {"volumes": [change]}, go_structs()["PodSpec"])
    assert after == {"volumes": [{"name": "v", "configMap": {"name": "c"}}]}


@pytest.mark.parametrize(
    "patch",
    [
        {"containers": [{"image": "x"}]},
        {"containers": ["a"]},
        {"containers": [{"name": ["a"]}]},
        {"$setElementOrder/containers": ["a"]},
        {"$setElementOrder/containers": "a"},
        {"$retainKeys": "containers"},
        {"$patch": "turn"},
    ],
    ids=str,
)
def test_a_strategic_patch_that_does_not_fit_is_an_error(patch: Any) -> None:
    with pytest.raises(UnfitPatchError):
        strategic_patch({"containers": containers("a")}, patch, go_structs()["PodSpec"])
