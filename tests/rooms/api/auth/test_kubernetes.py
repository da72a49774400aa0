"""Callers known by the cluster: their identity, their rights, and how seldom it is asked."""

import asyncio

import pytest
import structlog
from multidict import CIMultiDict

from gpuruntime.api.auth.access import Access, Place, Principal, Verb
from gpuruntime.api.auth.kubernetes import KEEP_NO_SECONDS, KEEP_YES_SECONDS, KubernetesGuard
from gpuruntime.api.errors import DeniedError, NotServingError, UnauthenticatedError
from gpuruntime.kube.client import Client
from gpuruntime.models.kinds.labels import GROUP
from gpuruntime.operations.options import Namespaces
from tests.options import configured
from tests.rooms.api.auth.reviews import RIGHTS, TOKENS, Reviews
from tests.rooms.api.service import UNITS, service
from tests.rooms.operations.cluster import INSTANCE, STOCK, Cluster

pytestmark = pytest.mark.looptime

LIST = Access(verb=Verb.LIST, resource="gpuunits")
LOG = Access(verb=Verb.GET, resource="gpuunits", subresource="log")
AUDIT = Access(verb=Verb.GET, resource="audit", place=Place.ALL)


@pytest.fixture
def reviews() -> Reviews:
    return Reviews(
        tokens={("good", "gpuruntime"): "ann", ("elsewhere", "other"): "ann", ("any", ""): "ann"},
        rights={("ann", "list", "gpuunits", INSTANCE), ("ann", "get", "audit", "")},
    )


@pytest.fixture
def guard(reviews: Reviews) -> KubernetesGuard:
    return guard_of(reviews)


def guard_of(reviews: Reviews) -> KubernetesGuard:
    return KubernetesGuard(
        Client(reviews), audience="gpuruntime", namespaces=configured(Namespaces)
    )


async def known(guard: KubernetesGuard, token: str = "good") -> Principal:
    return await guard.principal_of(CIMultiDict(Authorization=f"Bearer {token}"))


async def test_a_token_identifies_the_user_that_the_cluster_names(guard: KubernetesGuard) -> None:
    principal = await known(guard)
    assert (principal.name, principal.uid, principal.groups) == ("ann", "1", ("all",))
    assert principal.extra == (("k", ("v",)),)


@pytest.mark.parametrize("token", ["guessed", "elsewhere", "any"])
async def test_a_token_counts_for_its_audience_alone(guard: KubernetesGuard, token: str) -> None:
    with pytest.raises(UnauthenticatedError):
        await known(guard, token)


async def test_the_cluster_decides_about_rights(guard: KubernetesGuard, reviews: Reviews) -> None:
    principal = await known(guard)
    await guard.demand(principal, LIST)
    await guard.demand(principal, AUDIT)
    with pytest.raises(DeniedError, match=f"ann may not get gpuunits/log.{GROUP} in namespace"):
        await guard.demand(principal, LOG)
    path, spec = reviews.asked[-1]
    assert path == RIGHTS
    assert spec == {
        "user": "ann",
        "uid": "1",
        "groups": ["all"],
        "extra": {"k": ["v"]},
        "resourceAttributes": {
            "verb": "get",
            "group": GROUP,
            "resource": "gpuunits",
            "subresource": "log",
            "namespace": INSTANCE,
        },
    }


async def test_a_granted_verdict_expires_after_half_a_minute(
    guard: KubernetesGuard, reviews: Reviews
) -> None:
    await guard.demand(await known(guard), LIST)
    reviews.tokens.clear()
    await asyncio.sleep(KEEP_YES_SECONDS - 1)
    await guard.demand(await known(guard), LIST)
    assert [path for path, _ in reviews.asked] == [TOKENS, RIGHTS]
    await asyncio.sleep(2)
    with pytest.raises(UnauthenticatedError):
        await known(guard)


async def test_a_refused_verdict_expires_after_seconds(
    guard: KubernetesGuard, reviews: Reviews
) -> None:
    for _ in range(3):
        with pytest.raises(UnauthenticatedError):
            await known(guard, "new")
    assert len(reviews.asked) == 1
    reviews.tokens["new", "gpuruntime"] = "bob"
    await asyncio.sleep(KEEP_NO_SECONDS)
    assert (await known(guard, "new")).name == "bob"


async def test_concurrent_callers_of_one_token_share_one_review(
    guard: KubernetesGuard, reviews: Reviews
) -> None:
    reviews.seconds = 1.0
    async with asyncio.TaskGroup() as tasks:
        asking = [tasks.create_task(known(guard)) for _ in range(20)]
    assert {task.result().name for task in asking} == {"ann"}
    assert len(reviews.asked) == 1


async def test_without_the_cluster_every_caller_is_refused_and_nothing_is_kept(
    guard: KubernetesGuard, reviews: Reviews
) -> None:
    reviews.is_away = True
    with pytest.raises(NotServingError):
        await known(guard)
    reviews.is_away = False
    principal = await known(guard)
    reviews.is_away = True
    with pytest.raises(NotServingError):
        await guard.demand(principal, LIST)


@pytest.mark.parametrize("fault", ["forbids", "garbles", "is_slow"])
async def test_a_failed_review_is_503_and_its_log_omits_the_token(
    guard: KubernetesGuard, reviews: Reviews, fault: str
) -> None:
    if fault == "is_slow":
        reviews.seconds = 60.0
    else:
        setattr(reviews, fault, True)
    with structlog.testing.capture_logs() as logs, pytest.raises(NotServingError) as caught:
        await known(guard, "good")
    assert len(logs) == 1
    assert "good" not in f"{caught.value} {logs}"


async def test_over_http_the_cluster_judges_the_caller_first(reviews: Reviews) -> None:
    async with service(Cluster(), guard=guard_of(reviews)) as api:
        headers = {"Authorization": "Bearer good"}
        assert (await api.call("GET", UNITS, headers=headers)).status == 200
        assert (await api.call("GET", f"{UNITS}/a", headers=headers)).code == "forbidden"
        stock = await api.call("GET", f"{UNITS}?lifecycle=all", headers=headers)
        assert stock.code == "forbidden"
        assert STOCK in stock.body["error"]["message"]
        reviews.is_away = True
        other = await api.call("GET", UNITS, headers={"Authorization": "Bearer new"})
        assert (other.status, other.code) == (503, "service_unavailable")
        assert "Retry-After" in other.headers
        assert (await api.call("GET", "/api/v1/health")).status == 200
