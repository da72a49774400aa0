"""The rights that accounts were granted, and those that they used by an API server's audit log."""

from collections.abc import Iterable, Iterator
from typing import Any, Final

import attrs

from tests.rooms.manifests.overlays import documents

DECISION: Final = "authorization.k8s.io/decision"
ACCOUNTS: Final = "system:serviceaccount:"
# Only admission checks these, and by no request of their own. If an owner's deletion waits for a
# child, it checks whether the child's creator may say so (OwnerReferencesPermissionEnforcement).
ASKED_BY_ADMISSION: Final = frozenset({"gpuunits/finalizers", "gpustorages/finalizers"})


@attrs.frozen(order=True)
class Right:
    """A right of a role; `place` is stock, instance, system, or "" for the whole cluster."""

    role: str
    place: str
    group: str
    resource: str
    verb: str

    def __str__(self) -> str:
        resource = f"{self.resource}.{self.group}" if self.group else self.resource
        return f"{self.role} may {self.verb} {resource} in {self.place or 'the cluster'}"


# The component `authentication` grants this; a test requests it before that is installed.
NOT_FOR_EVERYBODY: Final = frozenset(
    {
        Right(
            role="api",
            place="",
            group="authentication.k8s.io",
            resource="tokenreviews",
            verb="create",
        )
    }
)


def granted() -> set[Right]:
    """Return the rights that all manifests grant, without those that only admission checks.

    It leaves out those of the component `gateway-exec`, too: its own test removes each of them.
    """
    return {
        right
        for right in _granted()
        if right.resource not in ASKED_BY_ADMISSION and not is_of_gateway_exec(right)
    }


def is_of_gateway_exec(right: Right) -> bool:
    return right.role == "gateway" and right.resource.partition("/")[0] == "pods"


def used(events: Iterable[dict[str, Any]]) -> set[Right]:
    """Return the rights that were used, by every installation in the cluster."""
    return {right for event in events if (right := _right_of(event)) and not is_refusal(event)}


def refused(events: Iterable[dict[str, Any]]) -> set[Right]:
    """Return the missing rights; a quota or admission refuses with the same status code."""
    return {right for event in events if (right := _right_of(event)) and is_refusal(event)}


def lines(found: Iterable[Right]) -> str:
    """Return one line per right, so that a failure report shows all of them."""
    return "\n".join(sorted(map(str, found)))


def is_refusal(event: dict[str, Any]) -> bool:
    return bool(event.get("annotations", {}).get(DECISION) == "forbid")


def _granted() -> Iterator[Right]:
    rules = {
        (one["kind"], one["metadata"]["name"], one["metadata"].get("namespace", "")): one["rules"]
        for one in documents("Role") + documents("ClusterRole")
    }
    for binding in documents("RoleBinding") + documents("ClusterRoleBinding"):
        namespace, role = binding["metadata"].get("namespace", ""), binding["roleRef"]
        for rule in rules[role["kind"], role["name"], namespace]:
            for subject in binding["subjects"]:
                yield from _rights(subject["name"], namespace, rule)


def _rights(account: str, namespace: str, rule: dict[str, Any]) -> Iterator[Right]:
    for group in rule["apiGroups"]:
        for resource in rule["resources"]:
            for verb in rule["verbs"]:
                yield Right(
                    role=account.removeprefix("gpuruntime-"),
                    place=namespace.removeprefix("runtime-"),
                    group=group,
                    resource=resource,
                    verb=verb,
                )


def _right_of(event: dict[str, Any]) -> Right | None:
    """Return the right that was used, or None for other accounts or a missing object."""
    about = event.get("objectRef")
    namespace, _, account = event["user"]["username"].removeprefix(ACCOUNTS).rpartition(":")
    name, _, use = namespace.rpartition("-")
    if use != "system" or not account.startswith("gpuruntime-") or about is None:
        return None
    resource = about["resource"]
    subresource = about.get("subresource", "")
    return Right(
        role=account.removeprefix("gpuruntime-"),
        place=about.get("namespace", "").removeprefix(f"{name}-"),
        group=about.get("apiGroup", ""),
        resource=f"{resource}/{subresource}" if subresource else resource,
        verb=event["verb"],
    )
