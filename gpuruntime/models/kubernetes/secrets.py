"""Secrets, as the manager writes them for workers; the product never lists or watches them."""

from typing import Final

import attrs

from gpuruntime.models.kubernetes.metadata import ObjectMeta, PartialObject
from gpuruntime.models.kubernetes.resources import Resource


@attrs.frozen(kw_only=True, slots=True)
class Secret:
    """`data` is base64-encoded and never printed."""

    metadata: ObjectMeta = attrs.field(factory=ObjectMeta)
    data: dict[str, str] = attrs.field(factory=dict, repr=False)


SECRETS: Final = Resource(group="", version="v1", kind="Secret", plural="secrets", type=Secret)
# For a writer whose answers must not contain values.
SECRET_METADATA: Final = Resource(
    group="", version="v1", kind="Secret", plural="secrets", type=PartialObject
)
