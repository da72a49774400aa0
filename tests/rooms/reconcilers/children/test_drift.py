from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuruntime.embedded.apiserver.patches import merge_patch
from gpuruntime.models.kinds.labels import APPLIED
from gpuruntime.reconcilers.children.drift import (
    MOST_REMEMBERED,
    Applied,
    Child,
    decode_applied,
    inputs_hash,
    is_behind,
    patch_back,
    patch_towards,
)


def child(
    spec: dict[str, Any], *, inputs: str = "1:a", generation: int = 1, revision: int = 1
) -> Child:
    return Child(inputs=inputs, generation=generation, revision=revision, body={"spec": spec})


def live(applied: Child, **changes: Any) -> dict[str, Any]:
    body = applied.annotated()
    return {**body, "spec": {**spec_of(applied.body), **changes}}


def spec_of(body: Any) -> dict[str, Any]:
    spec: dict[str, Any] = body["spec"]
    return spec


def remembered(body: Any) -> Applied:
    applied = decode_applied(body["metadata"]["annotations"][APPLIED])
    assert applied is not None
    return applied


def test_a_child_that_is_as_last_applied_needs_no_write() -> None:
    assert patch_towards(child({"a": 1}), live(child({"a": 1}))) == {}


def test_a_default_of_the_server_is_no_drift() -> None:
    desired = child({"containers": [{"name": "x"}], "empty": {}, "none": []})
    present = live(desired, containers=[{"name": "x", "policy": "Always"}], extra={"b": 1})
    del present["spec"]["empty"]
    assert patch_towards(desired, present) == {}


def test_only_a_changed_member_is_restored() -> None:
    desired = child({"a": 1, "b": {"c": 2, "d": 3}})
    assert patch_towards(desired, live(desired, b={"c": 9, "d": 3})) == {"spec": {"b": {"c": 2}}}


def test_a_list_is_restored_as_a_whole() -> None:
    desired = child({"args": ["a", "b"]})
    assert patch_towards(desired, live(desired, args=["a"])) == {"spec": {"args": ["a", "b"]}}
    assert patch_towards(desired, live(desired, args=["b", "a"])) == {"spec": {"args": ["a", "b"]}}


def test_quantities_are_compared_by_value() -> None:
    desired = child({"resources": {"limits": {"cpu": "1000m", "memory": "1Gi"}}})
    present = live(desired, resources={"limits": {"cpu": "1", "memory": "1024Mi"}})
    assert patch_towards(desired, present) == {}
    present = live(desired, resources={"limits": {"cpu": "2", "memory": "1Gi"}})
    assert patch_towards(desired, present) == {"spec": {"resources": {"limits": {"cpu": "1000m"}}}}


@pytest.mark.parametrize(("asked", "kept"), [("1n", "1m"), ("0.0015", "2m"), ("1100u", "2m")])
def test_a_quantity_that_the_server_rounds_up_is_no_drift(asked: str, kept: str) -> None:
    desired = child({"resources": {"limits": {"cpu": asked}}})
    assert patch_towards(desired, live(desired, resources={"limits": {"cpu": kept}})) == {}
    assert patch_towards(desired, live(desired, resources={"limits": {"cpu": "3m"}})) != {}


def test_other_strings_that_look_like_quantities_are_compared_as_strings() -> None:
    desired = child({"labels": {"size": "1"}})
    assert patch_towards(desired, live(desired, labels={"size": "1000m"})) != {}


def test_a_member_that_is_no_longer_wanted_is_removed() -> None:
    before = child({"selector": {"a": "1", "b": "2"}})
    desired = child({"selector": {"a": "1"}}, inputs="1:b")
    assert patch_towards(desired, live(before))["spec"] == {"selector": {"b": None}}


def test_a_member_that_is_no_longer_wanted_inside_a_list_replaces_the_list() -> None:
    before = child({"containers": [{"name": "x", "command": ["sh"]}]})
    desired = child({"containers": [{"name": "x"}]}, inputs="1:b")
    assert patch_towards(desired, live(before))["spec"] == {"containers": [{"name": "x"}]}


@pytest.mark.parametrize("revision", [0, 2])
def test_another_revision_of_our_code_changes_nothing_for_the_same_inputs(
    revision: int,
) -> None:
    running = live(child({"shape": "old"}))
    assert patch_towards(child({"shape": "new"}, revision=revision), running) == {}


def test_another_revision_still_restores_the_last_applied_body() -> None:
    running = live(child({"shape": "old"}), shape="edited by hand")
    assert patch_towards(child({"shape": "new"}, revision=2), running) == {
        "spec": {"shape": "old"}
    }


def test_new_inputs_apply_and_record_the_new_body() -> None:
    desired = child({"shape": "new"}, inputs="1:b", revision=2)
    patch = patch_towards(desired, live(child({"shape": "old"})))
    assert patch["spec"] == {"shape": "new"}
    assert remembered(patch) == remembered(desired.annotated())


def test_new_inputs_that_change_no_member_are_only_recorded() -> None:
    """Otherwise the next version of our code would take them for new, and restart the Pod."""
    desired = child({"shape": "same"}, inputs="1:b")
    patch = patch_towards(desired, live(child({"shape": "same"})))
    assert patch.keys() == {"metadata"}
    assert remembered(patch).inputs == "1:b"


def test_an_annotation_of_a_newer_version_is_left_as_it_is() -> None:
    running = live(child({"a": 1}))
    text = running["metadata"]["annotations"][APPLIED]
    running["metadata"]["annotations"][APPLIED] = text.replace("{", '{"added":1,', 1)
    assert patch_towards(child({"a": 1}), running) == {}


def placed(node: str, *, inputs: str = "1:a", image: str = "x") -> Child:
    return Child(
        inputs=inputs,
        generation=1,
        revision=1,
        body={"spec": {"image": image, "node": node}},
        surroundings=(("spec", "node"),),
    )


def test_changed_surroundings_change_nothing_by_themselves() -> None:
    assert patch_towards(placed("b"), live(placed("a"))) == {}


def test_new_inputs_that_change_only_the_surroundings_change_nothing() -> None:
    patch = patch_towards(placed("b", inputs="1:b"), live(placed("a")))
    assert patch.keys() == {"metadata"}


def test_new_inputs_apply_the_new_surroundings_as_well() -> None:
    patch = patch_towards(placed("b", inputs="1:b", image="y"), live(placed("a")))
    assert patch["spec"] == {"image": "y", "node": "b"}


def test_surroundings_of_a_child_too_large_to_record_change_nothing_either() -> None:
    large = "x" * MOST_REMEMBERED
    assert patch_towards(placed("b", image=large), live(placed("a", image=large))) == {}


def test_the_size_of_the_annotation_is_counted_in_bytes() -> None:
    text = live(child({"args": ["é" * (MOST_REMEMBERED // 2)]}))
    assert len(text["metadata"]["annotations"][APPLIED].encode()) <= MOST_REMEMBERED


def test_a_hash_of_an_unknown_rule_counts_as_unchanged() -> None:
    running = live(child({"shape": "theirs"}, inputs="7:zzz"))
    assert patch_towards(child({"shape": "ours"}), running) == {}


def test_under_an_unknown_rule_a_later_generation_counts_as_changed_inputs() -> None:
    """A change by the user must still take effect after a rollback."""
    running = live(child({"shape": "theirs"}, inputs="7:zzz", generation=3))
    desired = child({"shape": "ours"}, generation=4)
    patch = patch_towards(desired, running)
    assert patch["spec"] == {"shape": "ours"}
    assert remembered(patch) == remembered(desired.annotated())


def test_under_an_unknown_rule_without_a_generation_inputs_count_as_unchanged() -> None:
    running = live(child({"shape": "theirs"}, inputs="7:zzz", generation=0))
    assert patch_towards(child({"shape": "ours"}, generation=4), running) == {}


def test_a_generation_that_changed_no_input_is_recorded() -> None:
    """Otherwise a version with another rule would take it for a change."""
    patch = patch_towards(child({"a": 1}, generation=3), live(child({"a": 1}, generation=1)))
    assert patch.keys() == {"metadata"}
    assert remembered(patch).generation == 3


def test_a_child_without_its_annotation_is_compared_with_the_desired_body() -> None:
    desired = child({"a": 1})
    patch = patch_towards(desired, {"spec": {"a": 2}})
    assert patch["spec"] == {"a": 1}
    assert "metadata" in patch


def test_a_child_too_large_to_record_still_converges_and_survives_upgrades() -> None:
    large = child({"args": ["x" * MOST_REMEMBERED]})
    running = live(large)
    assert len(running["metadata"]["annotations"][APPLIED]) < 1_000
    assert patch_towards(large, running) == {}
    assert patch_towards(large, live(large, args=[]))["spec"] == spec_of(large.body)
    assert patch_towards(child({"args": ["new"]}, revision=2), running) == {}


def test_only_members_that_differ_from_their_defaults_are_hashed() -> None:
    @attrs.frozen(kw_only=True)
    class Inner:
        port: int = 1

    @attrs.frozen(kw_only=True)
    class Before:
        image: str = ""
        inner: Inner = Inner()

    @attrs.frozen(kw_only=True)
    class After:
        image: str = ""
        inner: Inner = Inner()
        added: str = "default"

    @attrs.frozen(kw_only=True)
    class WithMapping:
        image: str = ""
        inner: Inner = Inner()
        added: dict[str, str] = attrs.field(factory=dict)

    assert inputs_hash(Before(image="a")) == inputs_hash(After(image="a"))
    assert inputs_hash(Before(image="a")) == inputs_hash(WithMapping(image="a"))
    assert inputs_hash(Before(image="a")) != inputs_hash(Before(image="b"))
    assert inputs_hash(Before(inner=Inner(port=2))) != inputs_hash(Before())


SCALARS = st.booleans() | st.integers(0, 3) | st.sampled_from(["", "a", "1", "1000m"])
NAMES = st.sampled_from(["a", "b", "limits", "cpu"])
WANTED = st.dictionaries(
    NAMES,
    st.recursive(
        SCALARS,
        lambda inner: st.lists(inner, max_size=2) | st.dictionaries(NAMES, inner, max_size=3),
        max_leaves=6,
    ),
    max_size=3,
)


@given(before=WANTED, wanted=WANTED, edited=WANTED, inputs=st.sampled_from(["1:a", "1:b", "7:z"]))
def test_one_patch_ends_every_drift(before: Any, wanted: Any, edited: Any, inputs: str) -> None:
    """Start from any applied body, changed by any client, with any version of our code."""
    present = {**child(before, inputs=inputs).annotated(), "spec": edited}
    desired = child(wanted, inputs="1:b", generation=2)
    patch = patch_towards(desired, present)
    mended = merge_patch(present, patch)
    assert patch_towards(desired, mended) == {}
    assert not patch or mended != present


def test_a_child_whose_change_must_wait_stays_as_last_applied() -> None:
    edited = live(child({"a": 1, "b": 2}), b=9)
    assert patch_back(edited) == {"spec": {"b": 2}}
    assert patch_back(live(child({"a": 1}))) == {}


def test_a_child_is_behind_if_another_shape_of_it_is_desired() -> None:
    running = live(child({"a": 1}))
    assert is_behind(child({"a": 2}, inputs="1:b"), running)
    assert not is_behind(child({"a": 1}, inputs="1:b"), running)
    assert not is_behind(child({"a": 2}, revision=2), running)
    assert not is_behind(child({"a": 1}), live(child({"a": 1}), a=9))


def test_a_child_without_its_annotation_is_behind_if_its_members_differ() -> None:
    bare: dict[str, Any] = {"spec": {"a": 1, "defaulted": True}}
    assert patch_back(bare) == {}
    assert is_behind(child({"a": 2}), bare)
    assert not is_behind(child({"a": 1}), bare)
