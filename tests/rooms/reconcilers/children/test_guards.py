"""Members of children that only we set are removed when another client adds them."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuruntime.embedded.apiserver.patches import merge_patch
from gpuruntime.models.kinds import labels
from gpuruntime.models.kubernetes.network import NETWORK_POLICIES, SERVICES
from gpuruntime.models.kubernetes.workloads import DEPLOYMENTS
from gpuruntime.reconcilers.children.drift import Child, patch_back, patch_towards

PEER: Any = {"podSelector": {}}
RULES: Any = {"podSelector": {"matchLabels": {"a": "b"}}, "ingress": [{"from": [PEER]}]}


def child(kind: str, spec: Any) -> Child:
    body = {"kind": kind, "metadata": {"labels": {}}, "spec": spec}
    return Child(inputs="1:a", generation=1, revision=1, body=body)


def drift(kind: str, spec: Any, present: Any) -> Any:
    """Return what the patch changes of the spec."""
    desired = child(kind, spec)
    return patch_towards(desired, {**desired.annotated(), "spec": present}).get("spec", {})


def in_pod(**members: Any) -> Any:
    return {"template": {"spec": members}}


@pytest.mark.parametrize(
    ("kind", "spec", "present", "expected"),
    [
        pytest.param(
            SERVICES.kind,
            {"selector": {"a": "b"}},
            {"selector": {"a": "b", "c": "d"}, "sessionAffinity": "None"},
            {"selector": {"c": None}},
            id="a Service: the selector is exact, a default of the server stays",
        ),
        pytest.param(
            NETWORK_POLICIES.kind,
            RULES,
            {**RULES, "egress": [{}]},
            {"egress": None},
            id="a policy: a direction that is opened is closed",
        ),
        pytest.param(
            NETWORK_POLICIES.kind,
            RULES,
            {**RULES, "ingress": [{"from": [{**PEER, "namespaceSelector": {}}]}]},
            {"ingress": RULES["ingress"]},
            id="a policy: an empty selector may open a rule, and is removed",
        ),
        pytest.param(
            DEPLOYMENTS.kind,
            in_pod(containers=[{"name": "c"}]),
            in_pod(
                containers=[{"name": "c", "imagePullPolicy": "Always"}], restartPolicy="Always"
            ),
            {},
            id="a Deployment: defaults of the server stay",
        ),
        pytest.param(
            DEPLOYMENTS.kind,
            in_pod(containers=[{"name": "c"}]),
            in_pod(containers=[{"name": "c", "envFrom": [{"secretRef": {}}]}], hostPID=True),
            in_pod(containers=[{"name": "c"}], hostPID=None),
            id="a Deployment: what opens the Pod is removed",
        ),
        pytest.param(
            DEPLOYMENTS.kind,
            in_pod(initContainers=[{"name": "i"}]),
            in_pod(initContainers=[{"name": "i", "terminationMessagePolicy": "File"}]),
            {},
            id="a Deployment: an own container before the others keeps its defaults",
        ),
        pytest.param(
            DEPLOYMENTS.kind,
            in_pod(containers=[]),
            in_pod(containers=[], hostNetwork=False, securityContext={}),
            {},
            id="a Deployment: an empty member is none",
        ),
    ],
)
def test_a_guarded_member_is_as_desired(kind: str, spec: Any, present: Any, expected: Any) -> None:
    assert drift(kind, spec, present) == expected


def test_labels_of_ours_are_exact_and_others_stay() -> None:
    desired = child(SERVICES.kind, {})
    added = {labels.TENANT: "b", "team": "x"}
    live = {**desired.annotated(), "metadata": {**metadata(desired), "labels": added}}
    assert patch_towards(desired, live) == {"metadata": {"labels": {labels.TENANT: None}}}


def metadata(of: Child) -> dict[str, Any]:
    found: dict[str, Any] = of.annotated()["metadata"]  # type: ignore[assignment]  # JSON
    return found


def test_a_child_whose_change_must_wait_is_closed_as_well() -> None:
    desired = child(DEPLOYMENTS.kind, in_pod(containers=[]))
    live = {**desired.annotated(), "spec": in_pod(containers=[], hostIPC=True)}
    assert patch_back(live) == {"spec": in_pod(hostIPC=None)}


NAMES = st.sampled_from(["selector", "template", "spec", "containers", "hostPID", "ports", "a"])
SPECS = st.dictionaries(
    NAMES,
    st.recursive(
        st.sampled_from(["", "x", "y"]),
        lambda inner: st.lists(inner, max_size=2) | st.dictionaries(NAMES, inner, max_size=3),
        max_leaves=8,
    ),
    max_size=3,
)


@given(
    kind=st.sampled_from([DEPLOYMENTS.kind, SERVICES.kind, NETWORK_POLICIES.kind]),
    wanted=SPECS,
    edited=SPECS,
)
def test_one_patch_ends_every_drift_of_guarded_members(
    kind: str, wanted: Any, edited: Any
) -> None:
    desired = child(kind, wanted)
    present = {**desired.annotated(), "spec": edited}
    patch = patch_towards(desired, present)
    mended = merge_patch(present, patch)
    assert patch_towards(desired, mended) == {}
    assert not patch or mended != present
