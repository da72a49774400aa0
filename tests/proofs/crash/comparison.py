"""Compare two runs of one story: the objects that exist, and how often each was created."""

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final

from tests.proofs.crash.world import World
from tests.proofs.real_cluster.controlplane import ControlPlane

# Values that differ from run to run: identities, timestamps, nodes, addresses and digests.
OWN: Final = (
    (re.compile(r"-[0-9a-f]{16}-[a-z0-9]{5}\b"), "-<digest>-<pod>"),
    (re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"), "<uid>"),
    (re.compile(r"\d{4}-\d\d-\d\dT[0-9:.]+(Z|[+-]00:00)"), "<moment>"),
    (re.compile(r"\b[0-9a-f]{64}\b"), "<hash>"),
    (re.compile(r'(?<=/recover": ")[0-9a-f]+'), "<nonce>"),
    (re.compile(r"\b[0-9a-f]{16}\b"), "<digest>"),
    (re.compile(r"10\.96\.\d+\.\d+"), "<address>"),
    (re.compile(r"\bgpu-\d+\b"), "<node>"),
    (re.compile(r'(?<=shape\\":\\")[0-9a-f]+'), "<digest>"),
)
# The Deployment controller counts its roll-outs, and counts too many when it lags. The Pods and
# ReplicaSets that were created show what was rolled out.
_REVISION: Final = "deployment.kubernetes.io/revision"
DROPPED: Final = frozenset({"managedFields", "resourceVersion", "selfLink", _REVISION})
KINDS: Final = (
    ("gpuunits", "/apis/runtime.lokiwager.io/v1alpha1", True),
    ("stockpools", "/apis/runtime.lokiwager.io/v1alpha1", True),
    ("gpustorages", "/apis/runtime.lokiwager.io/v1alpha1", True),
    ("persistentvolumeclaims", "/api/v1", False),
    ("jobs", "/apis/batch/v1", False),
    ("deployments", "/apis/apps/v1", False),
    ("services", "/api/v1", False),
    ("networkpolicies", "/apis/networking.k8s.io/v1", False),
    ("configmaps", "/api/v1", False),
    ("secrets", "/api/v1", False),
)
# Kubernetes and the manifests put these objects into every namespace.
EVERYWHERE: Final = frozenset({"kube-root-ca.crt", "closed"})

# A state that is missing as a whole must not push the other differences out of a report.
MOST_SHOWN: Final = 300

# How often something was done, by verb, kind and name.
Counts = Counter[tuple[str, str, str]]
State = dict[str, Any]


def state_of(world: World, namespaces: Iterable[str] = (), names: Mapping[str, str] = {}) -> State:
    """Return all objects of the namespaces, without the values that differ from run to run.

    Without `namespaces` it reads all three of the world. `names` maps texts of this run to the
    texts that replace them, so that runs can be compared.
    """
    renamed = {**names, f"{world.name}-": "world-"}
    found: State = {}
    for namespace in namespaces or world.namespaces:
        for plural, root, has_status in KINDS:
            for item in world.items(f"{root}/namespaces/{namespace}/{plural}"):
                if item["metadata"]["name"] in EVERYWHERE:
                    continue
                if not has_status:
                    item.pop("status", None)
                key = f"{plural} {namespace}/{item['metadata']['name']}"
                found[key] = _without(item, DROPPED)
    return _anonymous(found, renamed)


def difference(expected: Any, found: Any, path: str = "") -> str:
    """Return one line for each member that differs."""
    if isinstance(expected, dict) and isinstance(found, dict):
        lines = (
            difference(expected.get(key), found.get(key), f"{path}/{key}")
            for key in sorted({*expected, *found})
        )
        return "\n".join(line for line in lines if line)
    if expected == found:
        return ""
    return f"{path}: {_shortened(expected)} became {_shortened(found)}"


def counts_of(plane: ControlPlane, worlds: Iterable[World]) -> dict[str, Counts]:
    """Return, by the world's name, what was created by any client and deleted by the product."""
    owner = {namespace: each.name for each in worlds for namespace in each.namespaces}
    kinds = {plural for plural, _, _ in KINDS} | {"pods"}
    counts: dict[str, Counts] = {each.name: Counter() for each in worlds}
    for event in plane.audit_events():
        what = event.get("objectRef", {})
        name = owner.get(what.get("namespace", ""))
        if name is None or what["resource"] not in kinds or not _counts(event):
            continue
        # The server generates the names of Pods, and the audit log does not contain them.
        known = what["namespace"] if what["resource"] == "pods" else what.get("name", "")
        if known in EVERYWHERE:
            continue
        counts[name][event["verb"], what["resource"], known.replace(f"{name}-", "world-")] += 1
    return counts


def removed_once(counts: Counts) -> Counts:
    """Return the counts with at most one deletion per created object.

    A delete that lands late may succeed again while the object is still terminating.
    """
    return Counter(
        {
            (verb, kind, name): min(count, counts["create", kind, name])
            if verb == "delete"
            else count
            for (verb, kind, name), count in counts.items()
        }
    )


def _shortened(value: Any) -> str:
    """Return the value as JSON, so short that a report shows every difference."""
    text = json.dumps(value)
    return text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}…"


def _counts(event: dict[str, Any]) -> bool:
    if event["objectRef"].get("subresource") or event["responseStatus"].get("code", 500) >= 300:
        return False
    is_ours = str(event["user"]["username"]).startswith("system:serviceaccount:")
    return event["verb"] == "create" or (event["verb"] == "delete" and is_ours)


def _without(value: Any, names: frozenset[str]) -> Any:
    match value:
        case dict():
            return {key: _without(one, names) for key, one in value.items() if key not in names}
        case list():
            return [_without(one, names) for one in value]
        case _:
            return value


def _anonymous(found: State, names: Mapping[str, str]) -> State:
    text = json.dumps(found, sort_keys=True)
    for own, common in names.items():
        text = text.replace(own, common)
    for pattern, common in OWN:
        text = pattern.sub(common, text)
    anonymous: State = json.loads(text)
    return anonymous
