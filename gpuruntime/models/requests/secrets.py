"""Requests for secrets; what prints one shows none of its values."""

from typing import Annotated

import attrs

from gpuruntime.models.definitions.schemas import Schema
from gpuruntime.models.definitions.texts import LabelValue, Name
from gpuruntime.models.kinds.secrets import SecretType


@attrs.frozen(kw_only=True, slots=True)
class RegistryLogin:
    """A login to an image registry."""

    server: Annotated[
        str,
        Schema(
            minLength=1,
            maxLength=253,
            pattern="^[!-~]*$",
            description="Such as `registry.example.com`.",
        ),
    ]
    username: Annotated[str, Schema(minLength=1, maxLength=253, pattern="^[^:\\x00-\\x1f]*$")]
    password: Annotated[str, Schema(minLength=1, maxLength=32768)] = attrs.field(repr=False)


@attrs.frozen(kw_only=True, slots=True)
class CreateSecret:
    """Values that units of the tenant may use; sent again, it replaces all of them."""

    name: Name
    type: Annotated[
        str, Schema(enum=tuple(SecretType), description="It cannot change; delete it first.")
    ] = SecretType.OPAQUE
    data: Annotated[dict[str, str], Schema(description="Values as text, by their keys.")] = (
        attrs.field(factory=dict, repr=False)
    )
    binaryData: Annotated[
        dict[str, str], Schema(description="Further values, each encoded as base64.")
    ] = attrs.field(factory=dict, repr=False)
    registry: RegistryLogin | None = None
    tenant: LabelValue = ""
