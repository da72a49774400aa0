"""Requests for a compacted version: 410 Expired, and how a client continues."""

from collections.abc import Iterator

import pytest
import pytest_asyncio

from gpuruntime.kube.errors import ExpiredError
from tests.proofs.conformance.calls import Api, Document
from tests.proofs.conformance.objects import CONFIG_MAPS, config_map
from tests.proofs.real_cluster.controlplane import ControlPlane
from tests.proofs.real_cluster.fixtures import started


@pytest.fixture(scope="module")
def cluster(
    tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config
) -> Iterator[ControlPlane]:
    """Start a cluster of its own: compaction needs a restart, which disturbs controllers."""
    yield from started(tmp_path_factory, pytestconfig)


@pytest_asyncio.fixture
async def forgotten(api: Api, maps: str) -> Document:
    """Return the first page of a list at a version that is compacted; b was added since."""
    for name in ("a", "c"):
        (await api.post(maps, config_map(name, labels={"of": "pages"}))).ok(201)
    page = (await api.get(maps, limit=1, labelSelector="of=pages")).ok(200)
    (await api.post(maps, config_map("b", labels={"of": "pages"}))).ok(201)
    await api.forget_history()
    return page


async def test_a_compacted_version_is_410_everywhere(
    api: Api, maps: str, forgotten: Document
) -> None:
    version = forgotten["metadata"]["resourceVersion"]
    exact = await api.get(maps, resourceVersion=version, resourceVersionMatch="Exact")
    assert exact.refusal == (410, "Expired")
    answer = await api.get(maps, watch=True, resourceVersion=version, timeoutSeconds=5)
    if answer.status == 200:  # the stream reports it as its first and last event
        assert (answer.body["type"], answer.body["object"]["reason"]) == ("ERROR", "Expired")
        assert answer.body["object"]["code"] == 410
    else:
        assert answer.refusal == (410, "Expired")


async def test_an_expired_list_can_continue_with_current_objects(
    api: Api, maps: str, forgotten: Document
) -> None:
    query: Document = {"limit": 5, "labelSelector": "of=pages"}
    answer = await api.get(maps, continue_=forgotten["metadata"]["continue"], **query)
    assert answer.refusal == (410, "Expired")
    fresh = answer.body["metadata"]["continue"]
    rest = (await api.get(maps, continue_=fresh, **query)).ok(200)
    assert [one["metadata"]["name"] for one in rest["items"]] == ["b", "c"]


async def test_the_client_raises_an_own_error_for_an_expired_list(
    api: Api, namespace: str, forgotten: Document
) -> None:
    token = forgotten["metadata"]["continue"]
    with pytest.raises(ExpiredError):
        await api.client.list_page(CONFIG_MAPS, namespace=namespace, continue_token=token)


@pytest.mark.usefixtures("forgotten")
async def test_current_versions_remain_readable(api: Api, maps: str) -> None:
    page = (await api.get(maps, labelSelector="of=pages")).ok(200)
    assert [one["metadata"]["name"] for one in page["items"]] == ["a", "b", "c"]
    version = page["metadata"]["resourceVersion"]
    async with api.watch(maps, resourceVersion=version, labelSelector="of=pages") as watch:
        (await api.post(maps, config_map("d", labels={"of": "pages"}))).ok(201)
        assert await watch.summaries(1) == [("ADDED", "d")]
