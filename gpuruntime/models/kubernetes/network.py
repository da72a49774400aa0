"""Services and NetworkPolicies, with raw specs that are only compared."""

from typing import Final

import attrs
import msgspec

from gpuruntime.models.encoding.json import EMPTY_OBJECT, keep_bytes
from gpuruntime.models.kubernetes.metadata import ObjectMeta
from gpuruntime.models.kubernetes.resources import Resource


@attrs.frozen(kw_only=True, slots=True)
class Service:
    metadata: ObjectMeta = attrs.field(factory=ObjectMeta)
    spec: msgspec.Raw = EMPTY_OBJECT

    def __attrs_post_init__(self) -> None:
        keep_bytes(self, "spec")


@attrs.frozen(kw_only=True, slots=True)
class NetworkPolicy:
    metadata: ObjectMeta = attrs.field(factory=ObjectMeta)
    spec: msgspec.Raw = EMPTY_OBJECT

    def __attrs_post_init__(self) -> None:
        keep_bytes(self, "spec")


SERVICES: Final = Resource(group="", version="v1", kind="Service", plural="services", type=Service)
NETWORK_POLICIES: Final = Resource(
    group="networking.k8s.io",
    version="v1",
    kind="NetworkPolicy",
    plural="networkpolicies",
    type=NetworkPolicy,
)
