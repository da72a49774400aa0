"""Errors of kube, translated for callers."""

import asyncio

import pytest

from gpuruntime.kube import errors as kube
from gpuruntime.operations.errors import (
    BusyError,
    ClusterUnavailableError,
    OperationsError,
    RefusedError,
    UnknownOutcomeError,
    bounded,
)
from gpuruntime.strict.structure import StrictError


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (kube.OutcomeUnknownError("x"), UnknownOutcomeError),
        (kube.MalformedAnswerError("x"), UnknownOutcomeError),
        (kube.UnreachableError("x"), ClusterUnavailableError),
        (kube.UnavailableError("x", 503), ClusterUnavailableError),
        (kube.UnauthorizedError("x", 401), ClusterUnavailableError),
        (kube.NotFoundError("x", 404), ClusterUnavailableError),
        (kube.ForbiddenError("x", 403), RefusedError),
        (kube.ThrottledError("x", 429), BusyError),
        (kube.InvalidError("x", 422), StrictError),
        (kube.BadRequestError("x", 400), StrictError),
    ],
    ids=lambda each: type(each).__name__ if isinstance(each, kube.KubeError) else each.__name__,
)
async def test_each_error_of_the_cluster_has_its_code(
    error: kube.KubeError, expected: type[Exception]
) -> None:
    with pytest.raises(expected):
        async with bounded("it", 1):
            raise error


async def test_the_clusters_retry_after_is_passed_on() -> None:
    with pytest.raises(BusyError) as caught:
        async with bounded("it", 1):
            raise kube.ThrottledError("x", 429, retry_after_seconds=7)
    assert caught.value.retry_after_seconds == 7


@pytest.mark.looptime
async def test_a_use_case_that_takes_too_long_has_an_unknown_outcome() -> None:
    with pytest.raises(UnknownOutcomeError, match="did not end within 5 s"):
        async with bounded("operation one", 5):
            await asyncio.sleep(6)


def test_each_error_has_a_code_of_its_own() -> None:
    codes = [error.code for error in OperationsError.__subclasses__()]
    assert len(set(codes)) == len(codes) == 19
