"""Secrets as callers see them: their names, and never a value."""

from datetime import datetime
from typing import Annotated

import attrs

from gpuruntime.models.definitions.schemas import Schema
from gpuruntime.models.kinds.secrets import SecretType


@attrs.frozen(kw_only=True, slots=False)
class SecretView:
    """A secret without its values, which the API cannot read."""

    name: str
    tenant: str
    type: Annotated[str, Schema(enum=tuple(SecretType))]
    createdAt: datetime
    updatedAt: datetime
