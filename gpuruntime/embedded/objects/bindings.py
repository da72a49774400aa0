"""Bindings: how a scheduler gives a Pod to a node, the one write that the Pod's spec allows it."""

import attrs

from gpuruntime.models.encoding.json import JsonObject
from gpuruntime.models.kubernetes.metadata import Key, ObjectMeta
from gpuruntime.models.kubernetes.resources import Resource


@attrs.frozen(kw_only=True, slots=True)
class Bound:
    """The answer is a Status, which has nothing of an object but its kind."""

    metadata: ObjectMeta = attrs.field(factory=ObjectMeta)


def bindings_of(pod: str) -> Resource[Bound]:
    """Every Pod has a collection of them, of which one is ever taken."""
    return Resource(
        group="", version="v1", kind="Status", plural=f"pods/{pod}/binding", type=Bound
    )


def binding(key: Key, uid: str, node: str) -> JsonObject:
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": key.name, "namespace": key.namespace, "uid": uid},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    }
