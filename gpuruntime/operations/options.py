"""The settings of the use cases."""

import attrs

from gpuruntime.models.kinds.claim_timing import ATTEMPT_SECONDS, CREATE_BOUND_SECONDS


@attrs.frozen(kw_only=True, slots=True)
class Namespaces:
    """Where our objects live; a request may name these places and no others."""

    stock: str = "runtime-stock"
    instance: str = "runtime-instance"
    system: str = "runtime-system"


@attrs.frozen(kw_only=True, slots=True)
class Options:
    """A create is sent within `create_bound_seconds` of its claim, or not at all.

    With the longest request behind it that stays below the grace after which the manager frees
    a claim, so that no unit ever comes to name a stock unit that was freed.
    """

    namespaces: Namespaces = Namespaces()
    retention_seconds: float = 86_400.0
    create_bound_seconds: float = CREATE_BOUND_SECONDS
    attempt_seconds: float = ATTEMPT_SECONDS
