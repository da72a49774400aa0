"""Bindings: a scheduler assigns a Pod to a node by creating one."""

import attrs

from gpuruntime.models.encoding.json import JsonObject
from gpuruntime.models.kubernetes.metadata import Key, ObjectMeta
from gpuruntime.models.kubernetes.resources import Resource


@attrs.frozen(kw_only=True, slots=True)
class Bound:
    """The server answers a binding with a Status, which has no metadata of an object."""

    metadata: ObjectMeta = attrs.field(factory=ObjectMeta)


def bindings_of(pod: str) -> Resource[Bound]:
    """Return the binding collection of a Pod; only one binding ever succeeds."""
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
