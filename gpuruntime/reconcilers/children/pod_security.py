"""Security contexts and scratch limits of Pods, as PodSecurity admission and quotas require."""

from typing import Final

from gpuruntime.models.encoding.json import JsonObject

# Any uid except root's. Images that run as another user say so in their own USER.
RESTRICTED_UID: Final = 65_532
# A quota rejects containers without a limit for a resource that it counts.
SCRATCH: Final = "1Gi"


def pod_security(*, is_restricted: bool) -> JsonObject:
    profile: JsonObject = {"seccompProfile": {"type": "RuntimeDefault"}}
    if not is_restricted:
        return profile
    return {**profile, "runAsNonRoot": True, "runAsUser": RESTRICTED_UID}


def storage_security() -> JsonObject:
    """Let each Pod that mounts a volume write to it, whichever Pod wrote there before."""
    return {"fsGroup": RESTRICTED_UID, "fsGroupChangePolicy": "OnRootMismatch"}


def container_security(*, is_read_only: bool = False) -> JsonObject:
    read_only: JsonObject = {"readOnlyRootFilesystem": True} if is_read_only else {}
    return {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        **read_only,
    }


def copying_security(*, is_restricted: bool) -> JsonObject:
    """Let a copy read the files of all users, and keep their owners.

    At the restricted level there is only one user, so the copy gets no such right.
    """
    held = container_security()
    if is_restricted:
        return held
    capabilities: JsonObject = {"drop": ["ALL"], "add": ["CHOWN", "DAC_OVERRIDE", "FOWNER"]}
    return {**held, "runAsUser": 0, "capabilities": capabilities}


def scratch_limits() -> JsonObject:
    return {"ephemeral-storage": SCRATCH}
