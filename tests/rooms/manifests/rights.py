"""What accounts were granted, and what of it they used, by the audit log of an API server."""

from collections.abc import Iterable, Iterator
from typing import Any, Final

import attrs

from tests.rooms.manifests.overlays import documents

DECISION: Final = "authorization.k8s.io/decision"
ACCOUNTS: Final = "system:serviceaccount:"
# Nobody asks for these by name: where an owner's deletion waits for a child, admission looks
# whether its maker may say so (OwnerReferencesPermissionEnforcement).
ASKED_BY_ADMISSION: Final = frozenset({"gpuunits/finalizers", "gpustorages/finalizers"})


@attrs.frozen(order=True)
class Right:
    """In the namespace of this use: stock, instance, system, or the empty text for the cluster."""

    role: str
    place: str
    group: str
    resource: str
    verb: str

    def __str__(self) -> str:
        resource = f"{self.resource}.{self.group}" if self.group else self.resource
        return f"{self.role} may {self.verb} {resource} in {self.place or 'the cluster'}"


# Of the component for callers whom the cluster knows; a test asks before it is there.
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
    """By all manifests together, but for what admission alone asks for."""
    return {right for right in _granted() if right.resource not in ASKED_BY_ADMISSION}


def used(events: Iterable[dict[str, Any]]) -> set[Right]:
    """Of all installations of a cluster, whatever their names are."""
    return {right for event in events if (right := _right_of(event)) and not is_refusal(event)}


def refused(events: Iterable[dict[str, Any]]) -> set[Right]:
    """By the lack of a right: a quota or admission refuses with the same code."""
    return {right for event in events if (right := _right_of(event)) and is_refusal(event)}


def lines(found: Iterable[Right]) -> str:
    """Whole in the report of a failure, however many they are."""
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
    """None for strangers, and for what everybody may."""
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
