"""The admission policies name exactly the annotations and status fields that the code writes."""

import re
from typing import Any

import attrs

from gpuruntime.models.kinds import labels
from gpuruntime.models.kinds.secrets import KUBERNETES_TYPES, secret_name_of
from gpuruntime.models.kinds.units import GPUUnitStatus
from gpuruntime.operations.secrets import SECRETS_APP
from tests.rooms.manifests.overlays import NAMES, documents

# Annotations on objects of other kinds, or for other accounts to read and change.
ELSEWHERE = {"OWNER_UID", "DRAINING", "APPLIED"}
LABELS = {
    "UNIT",
    "UNIT_UID",
    "STORAGE",
    "POOL",
    "SPEC",
    "TENANT",
    "FUNCTION",
    "ACCESSOR",
    "PREPARE",
    "UNMANAGED",
}


def spec_of(name: str) -> dict[str, Any]:
    [spec] = (
        each["spec"]
        for each in documents("ValidatingAdmissionPolicy")
        if each["metadata"]["name"] == name
    )
    assert isinstance(spec, dict)
    return spec


def annotations() -> set[str]:
    """Return all annotations of the labels' module, except those of ELSEWHERE."""
    prefix = f"{labels.GROUP}/"
    return {
        value.removeprefix(prefix)
        for name, value in vars(labels).items()
        if name.isupper() and str(value).startswith(prefix) and name not in LABELS | ELSEWHERE
    }


def test_the_policy_protects_every_annotation_of_a_claim() -> None:
    variables = {
        each["name"]: each["expression"] for each in spec_of("gpuruntime-claims")["variables"]
    }
    listed = variables["written"].partition("]")[0]
    assert set(re.findall("'([a-z-]+)'", listed)) == annotations()


def test_the_policy_protects_every_field_of_a_units_status_except_serverless() -> None:
    [validation] = spec_of("gpuruntime-status")["validations"]
    named = re.findall(r"oldObject\.\?status\.\?(\w+)", validation["expression"])
    parts = [each.name for each in attrs.fields(GPUUnitStatus)]
    assert sorted(named) == sorted(set(parts) - {"serverless"})


def test_the_policy_admits_the_secrets_that_the_api_stores() -> None:
    whole = str(spec_of("gpuruntime-secrets")["validations"])
    of_a_secret = re.search(r"matches\('(.*?)'\)", whole)
    assert of_a_secret is not None
    assert re.search(of_a_secret[1], secret_name_of("team-a", "hub"))
    assert not re.search(of_a_secret[1], "worker-hub")
    for text in (labels.APP_NAME, labels.MANAGED_BY, SECRETS_APP, labels.MANAGER):
        assert f"'{text}'" in whole
    types = re.search(r"in \[(.*?)\]", whole)
    assert types is not None
    assert set(re.findall("'(.*?)'", types[1])) == set(KUBERNETES_TYPES.values())


def test_each_policy_is_bound_and_denies_if_it_cannot_be_evaluated() -> None:
    for overlay in NAMES:
        policies = documents("ValidatingAdmissionPolicy", overlay)
        bound = {
            each["spec"]["policyName"]: each["spec"]["validationActions"]
            for each in documents("ValidatingAdmissionPolicyBinding", overlay)
        }
        assert bound == {each["metadata"]["name"]: ["Deny"] for each in policies}
        assert {each["spec"]["failurePolicy"] for each in policies} == {"Fail"}
