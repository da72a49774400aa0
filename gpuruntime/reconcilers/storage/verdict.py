"""The verdict on one part of a storage, which becomes a condition of its status."""

import attrs

from gpuruntime.models.kinds.reasons import StorageReason


@attrs.frozen(kw_only=True, slots=True)
class StorageVerdict:
    """A condition to write: whether it holds, its reason and its message."""

    is_true: bool = False
    reason: StorageReason
    message: str
