"""Rules of drift: what leads to Pods and confines them is as the product applies it."""

from collections.abc import Iterator
from typing import Any, Final, TypeAlias

import attrs

from gpuruntime.audit.breach import Finding, reference_to
from gpuruntime.audit.index import SnapshotIndex
from gpuruntime.models.encoding import codec
from gpuruntime.models.encoding.json import JsonObject
from gpuruntime.models.kinds import labels
from gpuruntime.models.kinds.provenance import is_terminating
from gpuruntime.models.kinds.units import GPUUnit, child_key, selector_of
from gpuruntime.models.kubernetes.network import NetworkPolicy, Service
from gpuruntime.models.kubernetes.workloads import Deployment

Selecting: TypeAlias = Service | NetworkPolicy

# A leading manager puts an edit back at once, unless it has to wait for the cluster.
HEAL_SECONDS: Final = 60.0
# A Deployment whose spec has none of these words opens nothing.
_OPENING: Final = (
    b'"hostNetwork"',
    b'"hostPID"',
    b'"hostIPC"',
    b'"hostPath"',
    b'"privileged"',
    b'"serviceAccountName"',
)
_LEADER: Final = "see that a manager leads, which puts it back"


@attrs.frozen(kw_only=True, slots=True)
class _Security:
    privileged: bool = False


@attrs.frozen(kw_only=True, slots=True)
class _Container:
    securityContext: _Security = _Security()


@attrs.frozen(kw_only=True, slots=True)
class _Volume:
    hostPath: dict[str, Any] | None = None


@attrs.frozen(kw_only=True, slots=True)
class _Pod:
    hostNetwork: bool = False
    hostPID: bool = False
    hostIPC: bool = False
    serviceAccountName: str = ""
    containers: tuple[_Container, ...] = ()
    initContainers: tuple[_Container, ...] = ()
    volumes: tuple[_Volume, ...] = ()


@attrs.frozen(kw_only=True, slots=True)
class _Template:
    spec: _Pod = _Pod()


@attrs.frozen(kw_only=True, slots=True)
class _DeploymentSpec:
    template: _Template = _Template()


@attrs.frozen(kw_only=True, slots=True)
class _Body:
    spec: dict[str, Any] = attrs.field(factory=dict)


@attrs.frozen(kw_only=True, slots=True)
class _Applied:
    """The part of the annotation that is judged; a large body is not recorded."""

    body: _Body = _Body()


def selects_own_pods(child: Selecting, index: SnapshotIndex) -> Iterator[Finding]:
    """The Service and the NetworkPolicy of a unit select its Pods, and no others.

    A Deployment of an older version selects by name alone, and they select as it does.
    """
    owner = child.metadata.controller_owner
    unit = index.unit_by_uid.get(owner.uid) if owner else None
    if unit is None or is_terminating(unit) or is_terminating(child):
        return
    wanted = _selector(unit, index)
    found = codec.decode_object(bytes(child.spec))
    is_policy = isinstance(child, NetworkPolicy)
    given = found.get("podSelector") if is_policy else found.get("selector")
    if given != ({"matchLabels": wanted} if is_policy else wanted):
        words = ",".join(f"{name}={value}" for name, value in wanted.items())
        yield _drifted(child, f"does not select the Pods of {reference_to(unit)} by {words}")


def as_applied(policy: NetworkPolicy, _: SnapshotIndex) -> Iterator[Finding]:
    """A NetworkPolicy has the rules that the manager has last applied, and no others."""
    metadata = policy.metadata
    if metadata.labels.get(labels.MANAGED_BY) != labels.MANAGER or is_terminating(policy):
        return
    applied = _recorded(metadata.annotations.get(labels.APPLIED, "{}"))
    if applied and applied != codec.decode_object(bytes(policy.spec)):
        yield _drifted(policy, "has other rules than those last applied")


def closed(deployment: Deployment, _: SnapshotIndex) -> Iterator[Finding]:
    """The Pods of a Deployment share nothing with their host, and have no rights of an account."""
    spec = bytes(deployment.spec)
    if is_terminating(deployment) or not any(word in spec for word in _OPENING):
        return
    pod = codec.decode(spec, _DeploymentSpec).template.spec
    containers = (*pod.containers, *pod.initContainers)
    opened = {
        "the host's network": pod.hostNetwork,
        "the host's processes": pod.hostPID or pod.hostIPC,
        "a path of the host": any(each.hostPath is not None for each in pod.volumes),
        "a privileged container": any(each.securityContext.privileged for each in containers),
        "a service account": bool(pod.serviceAccountName),
    }
    faults = [what for what, is_open in opened.items() if is_open]
    if faults:
        yield _drifted(deployment, f"gives its Pods {', '.join(faults)}")


def _selector(unit: GPUUnit, index: SnapshotIndex) -> dict[str, str]:
    deployment, selector = index.deployment_by_key.get(child_key(unit)), selector_of(unit)
    owner = deployment.metadata.controller_owner if deployment is not None else None
    if deployment is not None and owner is not None and owner.uid == unit.metadata.uid:
        is_older = bool(deployment.selector) and labels.UNIT_UID not in deployment.selector
        return {labels.UNIT: unit.metadata.name} if is_older else selector
    return selector


def _recorded(text: str) -> JsonObject:
    try:
        return codec.decode(text.encode(), _Applied).body.spec
    except codec.MalformedObjectError:
        return {}


def _drifted(child: Selecting | Deployment, fault: str) -> Finding:
    return Finding(
        objects=(reference_to(child),),
        message=f"{reference_to(child)} {fault}",
        remedy=_LEADER,
        allowed_seconds=HEAL_SECONDS,
    )
