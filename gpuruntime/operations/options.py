"""Settings of the use cases."""

import attrs

from gpuruntime.models.kinds.claim_timing import ATTEMPT_SECONDS, CREATE_BOUND_SECONDS


@attrs.frozen(kw_only=True, slots=True)
class Namespaces:
    """The namespaces of our objects. A request may name these and no others."""

    stock: str
    instance: str
    system: str


@attrs.frozen(kw_only=True, slots=True)
class Options:
    """A create is sent within `create_bound_seconds` of its claim, or not at all.

    Together with the longest request this stays below the grace after which the manager frees a
    claim. So no unit ever names a stock unit that was freed.
    """

    namespaces: Namespaces
    retention_seconds: float
    create_bound_seconds: float = CREATE_BOUND_SECONDS
    attempt_seconds: float = ATTEMPT_SECONDS
