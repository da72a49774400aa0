"""Members of children that only we set, since each of them leads elsewhere or opens a Pod.

A client that adds one has it removed, as drift. Other members that a client adds stay, such as
foreign labels and annotations, and so do defaults of the server.
"""

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from gpuruntime.models.encoding.json import JsonObject, JsonValue
from gpuruntime.models.kinds import labels
from gpuruntime.models.kubernetes.network import NETWORK_POLICIES, SERVICES
from gpuruntime.models.kubernetes.workloads import DEPLOYMENTS

# The guarded members of an object, each with the guards of its own members. None guards them all.
Guards: TypeAlias = Mapping[str, Any]
# The members of each item of a list.
ITEMS: Final = "*"

OUR_LABELS: Final[Guards] = dict.fromkeys(
    (
        labels.UNIT,
        labels.UNIT_UID,
        labels.STORAGE,
        labels.POOL,
        labels.SPEC,
        labels.TENANT,
        labels.FUNCTION,
        labels.ACCESSOR,
        labels.PREPARE,
    )
)
METADATA: Final[Guards] = {"labels": OUR_LABELS}
CONTAINER: Final[Guards] = dict.fromkeys(
    (
        "command",
        "args",
        "envFrom",
        "ports",
        "securityContext",
        "volumeDevices",
        "volumeMounts",
    )
)
POD: Final[Guards] = {
    **dict.fromkeys(
        (
            "hostIPC",
            "hostNetwork",
            "hostPID",
            "hostUsers",
            "nodeName",
            "resourceClaims",
            "securityContext",
            # The server copies the name of the account into the deprecated member as well.
            "serviceAccount",
            "serviceAccountName",
            "shareProcessNamespace",
        )
    ),
    "initContainers": {ITEMS: CONTAINER},
    "containers": {ITEMS: CONTAINER},
}
GUARDS: Final[Mapping[str, Guards]] = {
    DEPLOYMENTS.kind: {
        "metadata": METADATA,
        "spec": {"template": {"metadata": METADATA, "spec": POD}},
    },
    SERVICES.kind: {
        "metadata": METADATA,
        "spec": dict.fromkeys(("selector", "externalIPs", "publishNotReadyAddresses")),
    },
    NETWORK_POLICIES.kind: {"metadata": METADATA, "spec": None},
}


def with_guarded(last: JsonObject, live: JsonObject) -> JsonObject:
    """Return the last applied body as if it had set each guarded member of the live object."""
    guards = GUARDS.get(str(live.get("kind")))
    return _joined(last, _guarded(live, guards)) if guards else last


def _guarded(value: Any, guards: Guards | None) -> Any:
    if guards is None:
        return value
    if isinstance(value, list):
        return [_guarded(each, guards.get(ITEMS, {})) for each in value]
    if not isinstance(value, dict):
        return value
    # The server may write an empty member for one that is missing.
    return {name: _guarded(value[name], guards[name]) for name in guards if value.get(name)}


def _joined(last: JsonValue, guarded: Any) -> Any:
    if isinstance(last, dict) and isinstance(guarded, dict):
        return {**last, **{name: _joined(last.get(name), each) for name, each in guarded.items()}}
    if isinstance(last, list) and isinstance(guarded, list) and len(last) == len(guarded):
        return [_joined(*each) for each in zip(last, guarded, strict=True)]
    return guarded
