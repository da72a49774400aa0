"""How every Pod of ours is held in: as PodSecurity admission asks, and within a quota's sight."""

from typing import Final

from gpuruntime.models.encoding.json import JsonObject

# Any uid that is not root's; images that run as another one say so in their own USER.
RESTRICTED_UID: Final = 65_532
# A quota refuses containers that leave out what it counts.
SCRATCH: Final = "1Gi"


def pod_security(*, is_restricted: bool) -> JsonObject:
    profile: JsonObject = {"seccompProfile": {"type": "RuntimeDefault"}}
    if not is_restricted:
        return profile
    return {**profile, "runAsNonRoot": True, "runAsUser": RESTRICTED_UID}


def storage_security() -> JsonObject:
    """Whoever mounts a volume may write to it, whichever of our Pods wrote there before."""
    return {"fsGroup": RESTRICTED_UID, "fsGroupChangePolicy": "OnRootMismatch"}


def container_security(*, is_read_only: bool = False) -> JsonObject:
    read_only: JsonObject = {"readOnlyRootFilesystem": True} if is_read_only else {}
    return {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        **read_only,
    }


def copying_security(*, is_restricted: bool) -> JsonObject:
    """It reads what any user has left on a volume, and leaves it to the same user.

    At the restricted level there is one user alone, and no such right.
    """
    held = container_security()
    if is_restricted:
        return held
    capabilities: JsonObject = {"drop": ["ALL"], "add": ["CHOWN", "DAC_OVERRIDE", "FOWNER"]}
    return {**held, "runAsUser": 0, "capabilities": capabilities}


def scratch_limits() -> JsonObject:
    return {"ephemeral-storage": SCRATCH}
