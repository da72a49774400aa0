"""Pure decisions about a Deployment's ReplicaSets, one step of the rollout at a time.

Every step is decided from what is observed and is safe to decide again. After a step the
controller observes the result and asks for the next one.
"""

from collections.abc import Iterable, Mapping
from typing import Final

import attrs

from gpuruntime.embedded.kinds.workload_objects import DEPLOYMENTS, Deployment, ReplicaSet
from gpuruntime.embedded.workloads.children import (
    TEMPLATE_HASH,
    controller_reference,
    template_hash,
)
from gpuruntime.models.encoding.codec import decode_object
from gpuruntime.models.encoding.json import JsonObject

REVISION: Final = "deployment.kubernetes.io/revision"
REVISION_HISTORY: Final = "deployment.kubernetes.io/revision-history"
DESIRED_REPLICAS: Final = "deployment.kubernetes.io/desired-replicas"
MAX_REPLICAS: Final = "deployment.kubernetes.io/max-replicas"
LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
OWN_ANNOTATIONS: Final = frozenset(
    {REVISION, REVISION_HISTORY, DESIRED_REPLICAS, MAX_REPLICAS, LAST_APPLIED}
)


@attrs.frozen(kw_only=True, slots=True)
class Observed:
    """A Deployment with the ReplicaSets that it owns, the oldest first."""

    deployment: Deployment
    replica_sets: tuple[ReplicaSet, ...] = ()
    # The number of Pods that have not ended, terminating ones included, by the ReplicaSet's uid.
    live_pods: Mapping[str, int] = attrs.field(factory=dict)

    @property
    def hash(self) -> str:
        return template_hash(bytes(self.deployment.spec.template))

    @property
    def new(self) -> ReplicaSet | None:
        """Return the ReplicaSet of the current template, or None."""
        wanted = self.hash
        found = (
            each for each in self.replica_sets if each.metadata.labels.get(TEMPLATE_HASH) == wanted
        )
        return next(found, None)

    @property
    def old(self) -> tuple[ReplicaSet, ...]:
        new = self.new
        return tuple(each for each in self.replica_sets if each is not new)


@attrs.frozen(kw_only=True, slots=True)
class Amendment:
    """A change of a ReplicaSet's size, its annotations, or both."""

    replica_set: ReplicaSet
    replicas: int
    annotations: Mapping[str, str]

    @property
    def is_scaling(self) -> bool:
        return self.replicas != self.replica_set.spec.replicas


@attrs.frozen(kw_only=True, slots=True)
class Plan:
    creation: JsonObject | None = None
    amendments: tuple[Amendment, ...] = ()
    removals: tuple[ReplicaSet, ...] = ()


def decide(observed: Observed) -> Plan:
    if observed.deployment.spec.paused:
        return _only_scaled(observed)
    is_recreate = observed.deployment.spec.strategy.type == "Recreate"
    if is_recreate and _must_end_first(observed):
        return _scaled(observed, {each.metadata.uid: 0 for each in observed.old})
    if observed.new is None:
        return Plan(creation=_replica_set(observed, _size_of_new(observed)))
    sizes = {observed.new.metadata.uid: _size_of_new(observed)}
    plan = _scaled(observed, sizes)
    if any(each.is_scaling for each in plan.amendments):
        return plan
    shrunk = _scaled(observed, _sizes_of_old(observed))
    if shrunk.amendments:
        return shrunk
    return attrs.evolve(plan, removals=_expired(observed))


def max_surge(deployment: Deployment) -> int:
    return _fenceposts(deployment)[0]


def max_unavailable(deployment: Deployment) -> int:
    return _fenceposts(deployment)[1]


def revision_of(replica_set: ReplicaSet) -> int:
    text = replica_set.metadata.annotations.get(REVISION, "")
    return int(text) if text.isdecimal() else 0


def _only_scaled(observed: Observed) -> Plan:
    """Scale a paused Deployment, if at most one of its ReplicaSets is active."""
    active = [each for each in observed.replica_sets if each.spec.replicas]
    if len(active) > 1 or not observed.replica_sets:
        return Plan()
    scaled = active[0] if active else observed.replica_sets[-1]
    return _scaled(observed, {scaled.metadata.uid: observed.deployment.spec.replicas})


def _must_end_first(observed: Observed) -> bool:
    """Return whether old Pods exist: Recreate starts no new ones before they are gone."""
    return any(
        each.spec.replicas or observed.live_pods.get(each.metadata.uid) for each in observed.old
    )


def _size_of_new(observed: Observed) -> int:
    spec, new = observed.deployment.spec, observed.new
    size = new.spec.replicas if new else 0
    if spec.strategy.type == "Recreate" or size > spec.replicas:
        return spec.replicas
    room = spec.replicas + max_surge(observed.deployment) - _sum_of_sizes(observed)
    return size + max(0, min(room, spec.replicas - size))


def _sizes_of_old(observed: Observed) -> dict[str, int]:
    """Return the sizes of old ReplicaSets.

    Unavailable Pods are removed first, then as many others as availability permits.
    """
    sizes = {each.metadata.uid: each.spec.replicas for each in observed.old}
    room = _most_to_remove(observed)
    for each in observed.old:
        unavailable = each.spec.replicas - each.status.availableReplicas
        removed = max(0, min(room, unavailable))
        sizes[each.metadata.uid] -= removed
        room -= removed
    spare = _available(observed.replica_sets) - _least_available(observed.deployment)
    room = min(room, spare)
    for each in observed.old:
        removed = max(0, min(room, sizes[each.metadata.uid]))
        sizes[each.metadata.uid] -= removed
        room -= removed
    return sizes


def _most_to_remove(observed: Observed) -> int:
    """Return how many Pods may go; new Pods that are not available yet count against it."""
    new = observed.new
    starting = new.spec.replicas - new.status.availableReplicas if new else 0
    return _sum_of_sizes(observed) - _least_available(observed.deployment) - starting


def _least_available(deployment: Deployment) -> int:
    return deployment.spec.replicas - max_unavailable(deployment)


def _available(replica_sets: Iterable[ReplicaSet]) -> int:
    return sum(each.status.availableReplicas for each in replica_sets)


def _sum_of_sizes(observed: Observed) -> int:
    return sum(each.spec.replicas for each in observed.replica_sets)


def _fenceposts(deployment: Deployment) -> tuple[int, int]:
    """Return surge (rounded up) and unavailable (rounded down); both zero would never progress."""
    spec = deployment.spec
    if spec.strategy.type == "Recreate":
        return 0, 0
    rolling = spec.strategy.rollingUpdate
    surge = _count(rolling.maxSurge, spec.replicas, is_rounded_up=True)
    unavailable = _count(rolling.maxUnavailable, spec.replicas, is_rounded_up=False)
    unavailable = min(unavailable, spec.replicas)
    return (surge, unavailable) if surge or unavailable else (0, min(1, spec.replicas))


def _count(number: int | str, total: int, *, is_rounded_up: bool) -> int:
    if isinstance(number, int):
        return number
    hundredths = int(number.rstrip("%")) * total
    return -(-hundredths // 100) if is_rounded_up else hundredths // 100


def _scaled(observed: Observed, sizes: Mapping[str, int]) -> Plan:
    """Return the amendments of sizes and annotations that differ."""
    amendments = []
    for each in observed.replica_sets:
        size = sizes.get(each.metadata.uid, each.spec.replicas)
        annotations = _annotations_due(observed, each, is_scaled=size != each.spec.replicas)
        if size != each.spec.replicas or annotations:
            amendments.append(Amendment(replica_set=each, replicas=size, annotations=annotations))
    return Plan(amendments=tuple(amendments))


def _annotations_due(
    observed: Observed, replica_set: ReplicaSet, *, is_scaled: bool
) -> dict[str, str]:
    """Return the annotations to set; an old ReplicaSet only gets its last sizes."""
    wanted: dict[str, str] = {}
    if is_scaled or replica_set.spec.replicas:
        wanted |= _sizes_annotated(observed.deployment)
    if replica_set is observed.new:
        wanted |= _copied(observed.deployment) | _revision_annotated(observed)
    present = replica_set.metadata.annotations
    return {name: value for name, value in wanted.items() if present.get(name) != value}


def _sizes_annotated(deployment: Deployment) -> dict[str, str]:
    replicas = deployment.spec.replicas
    most = str(replicas + max_surge(deployment))
    return {DESIRED_REPLICAS: str(replicas), MAX_REPLICAS: most}


def _copied(deployment: Deployment) -> dict[str, str]:
    annotations = deployment.metadata.annotations
    return {name: text for name, text in annotations.items() if name not in OWN_ANNOTATIONS}


def _revision_annotated(observed: Observed) -> dict[str, str]:
    """Return the revision; a template that returns gets the next one and keeps its history."""
    latest_old = max((revision_of(each) for each in observed.old), default=0)
    new = observed.new
    if new is None:
        return {REVISION: str(latest_old + 1)}
    revision = revision_of(new)
    if revision > latest_old:
        return {}
    had = [new.metadata.annotations.get(REVISION_HISTORY, ""), str(revision) if revision else ""]
    history = ",".join(filter(None, had))
    annotated = {REVISION: str(latest_old + 1)}
    return {**annotated, REVISION_HISTORY: history} if history else annotated


def _expired(observed: Observed) -> tuple[ReplicaSet, ...]:
    """Return the empty ReplicaSets beyond the history limit, lowest revisions first."""
    empty = [
        each
        for each in observed.old
        if not each.spec.replicas and not each.status.replicas and not _is_being_deleted(each)
    ]
    surplus = len(observed.old) - observed.deployment.spec.revisionHistoryLimit
    return tuple(sorted(empty, key=revision_of)[: max(0, surplus)])


def _is_being_deleted(replica_set: ReplicaSet) -> bool:
    return replica_set.metadata.deletionTimestamp is not None


def _replica_set(observed: Observed, replicas: int) -> JsonObject:
    deployment, hashed = observed.deployment, {TEMPLATE_HASH: observed.hash}
    template = decode_object(bytes(deployment.spec.template))
    metadata = _object(template, "metadata")
    labels = {**_object(metadata, "labels"), **hashed}
    selector = decode_object(bytes(deployment.spec.selector))
    spec: JsonObject = {
        "replicas": replicas,
        "selector": {**selector, "matchLabels": {**_object(selector, "matchLabels"), **hashed}},
        "template": {**template, "metadata": {**metadata, "labels": labels}},
    }
    if deployment.spec.minReadySeconds:
        spec["minReadySeconds"] = deployment.spec.minReadySeconds
    annotations = _copied(deployment) | _sizes_annotated(deployment)
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {
            "name": f"{deployment.metadata.name}-{observed.hash}",
            "namespace": deployment.metadata.namespace,
            "labels": labels,
            "annotations": annotations | _revision_annotated(observed),
            "ownerReferences": [controller_reference(DEPLOYMENTS, deployment)],
        },
        "spec": spec,
    }


def _object(document: JsonObject, name: str) -> JsonObject:
    member = document.get(name)
    return dict(member) if isinstance(member, dict) else {}
