"""The rights that accounts used and lacked, as a real control plane's audit log records them."""

from typing import Any

from tests.rooms.manifests.rights import Right, granted, is_of_gateway_exec, refused, used

CLAIM = Right(
    role="api", place="stock", group="runtime.lokiwager.io", resource="gpuunits", verb="patch"
)
COUNT = Right(role="api", place="", group="", resource="nodes", verb="watch")


def event(account: str, decision: str = "allow", **about: str) -> dict[str, Any]:
    return {
        "user": {"username": f"system:serviceaccount:{account}"},
        "verb": about.pop("verb"),
        "annotations": {"authorization.k8s.io/decision": decision},
        "objectRef": about,
    }


def claimed(account: str, decision: str = "allow") -> dict[str, Any]:
    about = {"resource": "gpuunits", "apiGroup": CLAIM.group, "namespace": "world-1-stock"}
    return event(account, decision, verb="patch", **about)


def test_a_request_uses_a_right_in_an_installation_of_any_name() -> None:
    nodes = event("world-1-system:gpuruntime-api", verb="watch", resource="nodes")
    assert used([claimed("world-1-system:gpuruntime-api"), nodes]) == {CLAIM, COUNT}


def test_other_accounts_use_no_rights_of_ours() -> None:
    others = ("world-1-system:default", "elsewhere:gpuruntime-api", "kube-system:generic")
    assert used([claimed(each) for each in others]) == set()


def test_a_forbidden_request_is_a_missing_right() -> None:
    forbidden = [claimed("world-1-system:gpuruntime-api", "forbid")]
    assert used(forbidden) == set()
    assert refused(forbidden) == {CLAIM}


def test_granted_rights_are_read_from_roles_through_their_bindings() -> None:
    assert {CLAIM, COUNT} <= granted()
    assert not any(is_of_gateway_exec(right) for right in granted())
    assert any(right.role == "gateway" for right in granted())
    assert not any(right.role == "results" for right in granted())
    assert str(CLAIM) == "api may patch gpuunits.runtime.lokiwager.io in stock"
