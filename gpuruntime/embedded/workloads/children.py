"""Children of workloads: their owner references, Pods from templates, and template hashes."""

from functools import lru_cache
from hashlib import sha256
from typing import Any, Final

from gpuruntime.models.encoding.codec import decode_object, encode_canonical
from gpuruntime.models.encoding.json import JsonObject
from gpuruntime.models.kubernetes.metadata import KubernetesObject
from gpuruntime.models.kubernetes.resources import Resource

BY_OWNER: Final = "owner"
TEMPLATE_HASH: Final = "pod-template-hash"

# No vowels and look-alikes, so that no hash is a word.
_ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"
_LENGTH: Final = 10


def controller_reference(resource: Resource[Any], owner: KubernetesObject) -> JsonObject:
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "name": owner.metadata.name,
        "uid": owner.metadata.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def owner_uids(child: KubernetesObject) -> tuple[str, ...]:
    """Index a child under the uid of its controller."""
    owner = child.metadata.controller_owner
    return (owner.uid,) if owner else ()


def pod_of(
    template: JsonObject,
    owner: KubernetesObject,
    resource: Resource[Any],
    *,
    labels: dict[str, str] | None = None,
    finalizers: tuple[str, ...] = (),
) -> JsonObject:
    """Return a Pod of the template, named after its owner; `labels` add to the template's."""
    described = template.get("metadata")
    metadata = dict(described) if isinstance(described, dict) else {}
    metadata["generateName"] = f"{owner.metadata.name}-"
    metadata["namespace"] = owner.metadata.namespace
    metadata["ownerReferences"] = [controller_reference(resource, owner)]
    if labels:
        metadata["labels"] = {**metadata.get("labels", {}), **labels}
    if finalizers:
        metadata["finalizers"] = list(finalizers)
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}


@lru_cache(maxsize=8_192)
def template_hash(template: bytes) -> str:
    """Return the hash of a template, which does not depend on the order of its members."""
    number = int.from_bytes(sha256(encode_canonical(decode_object(template))).digest()[:8])
    signs = []
    for _ in range(_LENGTH):
        number, index = divmod(number, len(_ALPHABET))
        signs.append(_ALPHABET[index])
    return "".join(signs)
