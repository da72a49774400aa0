"""What the admission policies name is what the code writes, and nothing is left out."""

import re
from typing import Any

import attrs

from gpuruntime.models.kinds import labels
from gpuruntime.models.kinds.units import GPUUnitStatus
from tests.rooms.manifests.overlays import NAMES, documents

# Written by gpuruntime on objects of other kinds, or for others to read and change.
ELSEWHERE = {"OWNER_UID", "DRAINING"}
LABELS = {"UNIT", "STORAGE", "POOL", "SPEC", "TENANT", "FUNCTION", "ACCESSOR", "PREPARE"}


def spec_of(name: str) -> dict[str, Any]:
    [spec] = (
        each["spec"]
        for each in documents("ValidatingAdmissionPolicy")
        if each["metadata"]["name"] == name
    )
    assert isinstance(spec, dict)
    return spec


def annotations() -> set[str]:
    """All that the labels' module names, but for what stands elsewhere."""
    prefix = f"{labels.GROUP}/"
    return {
        value.removeprefix(prefix)
        for name, value in vars(labels).items()
        if name.isupper() and str(value).startswith(prefix) and name not in LABELS | ELSEWHERE
    }


def test_every_annotation_that_a_claim_is_known_by_is_held() -> None:
    variables = {
        each["name"]: each["expression"] for each in spec_of("gpuruntime-claims")["variables"]
    }
    listed = variables["written"].partition("]")[0]
    assert set(re.findall("'([a-z-]+)'", listed)) == annotations()


def test_every_part_of_a_unit_s_status_is_the_manager_s_but_for_functions() -> None:
    [validation] = spec_of("gpuruntime-status")["validations"]
    named = re.findall(r"oldObject\.\?status\.\?(\w+)", validation["expression"])
    parts = [each.name for each in attrs.fields(GPUUnitStatus)]
    assert sorted(named) == sorted(set(parts) - {"serverless"})


def test_each_policy_is_bound_and_denies_where_it_cannot_be_judged() -> None:
    for overlay in NAMES:
        policies = documents("ValidatingAdmissionPolicy", overlay)
        bound = {
            each["spec"]["policyName"]: each["spec"]["validationActions"]
            for each in documents("ValidatingAdmissionPolicyBinding", overlay)
        }
        assert bound == {each["metadata"]["name"]: ["Deny"] for each in policies}
        assert {each["spec"]["failurePolicy"] for each in policies} == {"Fail"}
