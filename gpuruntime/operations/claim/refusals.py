"""What the cluster refused to mark for one claim: passed over, and told where nothing is left."""

from typing import Final

import structlog

from gpuruntime.kube.errors import ApiError, BadRequestError, ForbiddenError, InvalidError
from gpuruntime.models.kinds.units import GPUUnit

# Reasons that may lie in the very object: its annotations are full, a policy speaks of it.
OF_THE_OBJECT: Final = (BadRequestError, InvalidError, ForbiddenError)
# As many as that are no fault of single objects: trying all the others helps nobody.
MOST_REFUSALS: Final = 16

log = structlog.get_logger()


class Refusals:
    """Lives as long as one claim, in which what is in here is not tried again."""

    def __init__(self) -> None:
        self._uids: set[str] = set()
        self._last: ApiError | None = None

    def __contains__(self, uid: str) -> bool:
        return uid in self._uids

    @property
    def are_too_many(self) -> bool:
        return len(self._uids) >= MOST_REFUSALS

    def add(self, stock: GPUUnit, error: ApiError) -> None:
        self._uids.add(stock.metadata.uid)
        self._last = error
        log.warning("stock refuses its claim", stock=str(stock.metadata.key), error=str(error))

    def demand_right(self) -> None:
        """Raises ForbiddenError where that was the last word: the right itself may be missing."""
        if isinstance(self._last, ForbiddenError):
            raise self._last
