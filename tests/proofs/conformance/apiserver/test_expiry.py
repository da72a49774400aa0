"""A version that the server has forgotten: 410 Expired, and how to go on."""

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
    """Its own: the real server forgets by a restart, which the common one's controllers feel."""
    yield from started(tmp_path_factory, pytestconfig)


@pytest_asyncio.fixture
async def forgotten(api: Api, maps: str) -> Document:
    """The first page of a list whose version the server no longer has; b was added since."""
    for name in ("a", "c"):
        (await api.post(maps, config_map(name, labels={"of": "pages"}))).ok(201)
    page = (await api.get(maps, limit=1, labelSelector="of=pages")).ok(200)
    (await api.post(maps, config_map("b", labels={"of": "pages"}))).ok(201)
    await api.forget_history()
    return page


async def test_a_forgotten_version_is_410_everywhere(
    api: Api, maps: str, forgotten: Document
) -> None:
    version = forgotten["metadata"]["resourceVersion"]
    exact = await api.get(maps, resourceVersion=version, resourceVersionMatch="Exact")
    assert exact.refusal == (410, "Expired")
    answer = await api.get(maps, watch=True, resourceVersion=version, timeoutSeconds=5)
    if answer.status == 200:  # told by the stream, as its first and last event
        assert (answer.body["type"], answer.body["object"]["reason"]) == ("ERROR", "Expired")
        assert answer.body["object"]["code"] == 410
    else:
        assert answer.refusal == (410, "Expired")


async def test_a_list_that_is_broken_off_can_go_on_with_what_is_there_now(
    api: Api, maps: str, forgotten: Document
) -> None:
    query: Document = {"limit": 5, "labelSelector": "of=pages"}
    answer = await api.get(maps, continue_=forgotten["metadata"]["continue"], **query)
    assert answer.refusal == (410, "Expired")
    fresh = answer.body["metadata"]["continue"]
    rest = (await api.get(maps, continue_=fresh, **query)).ok(200)
    assert [one["metadata"]["name"] for one in rest["items"]] == ["b", "c"]


async def test_the_client_tells_an_expired_list_from_other_refusals(
    api: Api, namespace: str, forgotten: Document
) -> None:
    token = forgotten["metadata"]["continue"]
    with pytest.raises(ExpiredError):
        await api.client.list_page(CONFIG_MAPS, namespace=namespace, continue_token=token)


@pytest.mark.usefixtures("forgotten")
async def test_present_versions_are_still_good(api: Api, maps: str) -> None:
    page = (await api.get(maps, labelSelector="of=pages")).ok(200)
    assert [one["metadata"]["name"] for one in page["items"]] == ["a", "b", "c"]
    version = page["metadata"]["resourceVersion"]
    async with api.watch(maps, resourceVersion=version, labelSelector="of=pages") as watch:
        (await api.post(maps, config_map("d", labels={"of": "pages"}))).ok(201)
        assert await watch.told(1) == [("ADDED", "d")]
