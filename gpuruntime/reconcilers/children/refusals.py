"""Refusals of children: another owner has the name, or the cluster rejects the content."""

from typing import Final

from gpuruntime.models.kubernetes.metadata import KubernetesObject, OwnerReference
from gpuruntime.reconcilers.children.drift import recorded_owner

# A child that the cluster refused is retried after this many seconds.
REFUSED_SECONDS: Final = 15.0


def is_owned_by(live: KubernetesObject, owner: KubernetesObject) -> bool:
    """Return whether the owner controls the object, or if nothing does, created it."""
    controller = live.metadata.controller_owner
    uid = controller.uid if controller is not None else recorded_owner(live.metadata)
    return uid == owner.metadata.uid


def ownership_message(child: str, owner: OwnerReference | None) -> str:
    """Return a message about a child that has a name of ours but another owner."""
    belongs = f"belongs to {owner.kind} {owner.name}" if owner else "has no owner"
    return f"{child} {belongs}: it is left as it is; delete or rename it to make room for ours"
