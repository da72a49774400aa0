"""Which of several errors of one reconcile decides about its key."""

from collections.abc import Iterator

from gpuruntime.errors import TerminalError
from gpuruntime.kube.errors import ApiError, ConflictError, KubeError


def gravest(error: BaseException) -> BaseException:
    """The error itself, or of a group the one that a retry has to fear most.

    A terminal error decides only alone: beside any other a retry may still do some good.
    """
    return max(_leaves(error), key=_gravity)


def retry_after_seconds(error: BaseException) -> float:
    """How long the API server asks to be left alone: by all errors of a group together."""
    asked = (leaf.retry_after_seconds for leaf in _leaves(error) if isinstance(leaf, ApiError))
    return max((seconds for seconds in asked if seconds is not None), default=0.0)


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from _leaves(inner)
    else:
        yield error


def _gravity(error: BaseException) -> int:
    match error:
        case TerminalError():
            return 0
        case ConflictError():
            return 1
        case KubeError():
            return 2
        case _:
            return 3
