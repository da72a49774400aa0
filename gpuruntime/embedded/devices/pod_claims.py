"""The claims for devices that a Pod names, itself or in the status for its templates."""

import attrs

from gpuruntime.embedded.kinds.pod_objects import Pod
from gpuruntime.models.kubernetes.devices import ResourceClaim
from gpuruntime.models.kubernetes.metadata import Key


@attrs.frozen(slots=True)
class NamedClaim:
    """A claim that a Pod names; a generated one has to be controlled by the Pod."""

    key: Key
    is_generated: bool = False

    def serves(self, pod: Pod, claim: ResourceClaim | None) -> bool:
        """Return whether the claim exists, is not terminating, and may be used by the Pod."""
        if claim is None or claim.metadata.deletionTimestamp is not None:
            return False
        owner = claim.metadata.controller_owner
        is_own = owner is not None and owner.uid == pod.metadata.uid
        return is_own or not self.is_generated


def claims_of(pod: Pod) -> tuple[NamedClaim, ...] | None:
    """Return the Pod's claims, or None while one of its templates has no claim yet."""
    namespace, found = pod.metadata.namespace, []
    generated = {each.name: each.resourceClaimName for each in pod.status.resourceClaimStatuses}
    for claim in pod.spec.resourceClaims:
        if claim.resourceClaimName is not None:
            found.append(NamedClaim(Key(namespace, claim.resourceClaimName)))
            continue
        if claim.name not in generated:
            return None
        name = generated[claim.name]
        if name is not None:
            found.append(NamedClaim(Key(namespace, name), is_generated=True))
    return tuple(found)
