"""Units over HTTP: requests, their answers, and their objects in the cluster."""

import asyncio
from collections.abc import AsyncIterator

import attrs
import pytest

from tests.faults import Fault, refused
from tests.rooms.api.service import UNITS, Service, service
from tests.rooms.operations.cluster import INSTANCE, STOCK, Cluster

pytestmark = pytest.mark.looptime

WEB = {
    "command": ["python"],
    "args": ["-m", "http.server", "8080"],
    "ports": [{"name": "http", "port": 8080}],
}


@pytest.fixture
async def cluster() -> Cluster:
    return Cluster()


@pytest.fixture
async def api(cluster: Cluster) -> AsyncIterator[Service]:
    cluster.add_stock(3)
    async with service(cluster) as served:
        yield served


async def test_a_new_unit_is_201_and_has_the_stocks_envelope(api: Service) -> None:
    answer = await api.create(name="demo", template=WEB, access={"primaryPort": "http"})
    view = answer.data
    assert answer.status == 201
    assert answer.headers["Location"] == f"{UNITS}/demo"
    assert (view["name"], view["namespace"], view["lifecycle"]) == ("demo", INSTANCE, "instance")
    assert (view["specName"], view["memory"], view["gpu"]) == ("g1.1", "16Gi", 1)
    assert view["template"]["ports"] == [{"name": "http", "port": 8080, "protocol": "TCP"}]
    assert (view["access"]["primaryPort"], view["access"]["scheme"]) == ("http", "http")
    assert (view["access"]["readiness"], view["access"]["generation"]) == ("tcp", 0)
    assert view["sourceStock"]["namespace"] == STOCK
    assert (view["phase"], view["operationID"]) == ("Progressing", "one")
    assert view["timeline"]["acceptedAt"] <= view["timeline"]["claimedAt"]
    assert view["timeline"]["createdAt"] is None, "no Deployment exists yet"


async def test_a_repeated_request_is_200_and_marked_as_a_replay(api: Service) -> None:
    first = await api.create()
    second = await api.create()
    assert (first.status, second.status) == (201, 200)
    assert "Idempotent-Replay" not in first.headers
    assert second.headers["Idempotent-Replay"] == "true"
    assert second.data["sourceStock"] == first.data["sourceStock"]


async def test_another_body_under_the_same_operation_is_a_conflict(api: Service) -> None:
    await api.create()
    answer = await api.create(image="python:3.13")
    assert (answer.status, answer.code) == (409, "operation_conflict")


async def test_the_steps_of_a_creation_are_timed(api: Service) -> None:
    timing = (await api.create()).headers["Server-Timing"]
    steps = dict(step.split(";dur=") for step in timing.split(", "))
    assert list(steps) == ["replay", "claim", "create"]
    assert float(steps["claim"]) > 0
    assert float(steps["create"]) > 0


async def test_without_ready_stock_nothing_is_left_behind(cluster: Cluster, api: Service) -> None:
    for number in range(3):
        assert (await api.create(f"u-{number}")).status == 201
    answer = await api.create("u-3")
    assert (answer.status, answer.code) == (409, "insufficient_capacity")
    assert len(cluster.units) == 3


async def test_a_late_replay_of_a_deleted_unit_creates_nothing(api: Service) -> None:
    await api.create(name="demo")
    assert (await api.call("DELETE", f"{UNITS}/demo")).status == 204
    answer = await api.create(name="demo")
    assert (answer.status, answer.code) == (409, "operation_finished")


async def test_a_name_belongs_to_the_operation_that_took_it(api: Service) -> None:
    await api.create(name="demo")
    answer = await api.create("two", name="demo")
    assert (answer.status, answer.code) == (409, "name_taken")


async def test_a_unit_is_read_with_its_etag(api: Service) -> None:
    created = await api.create(name="demo")
    answer = await api.call("GET", f"{UNITS}/demo")
    assert answer.status == 200
    assert answer.headers["ETag"] == created.headers["ETag"]
    assert answer.data["name"] == "demo"


async def test_a_missing_unit_is_404_with_its_code(api: Service) -> None:
    for name in ("nobody", "Not-A-Name", "x" * 64):
        for method in ("GET", "DELETE"):
            answer = await api.call(method, f"{UNITS}/{name}")
            assert (answer.status, answer.code) == (404, "gpuunit_not_found")


async def test_a_second_deletion_of_a_unit_is_404(api: Service) -> None:
    await api.create(name="demo")
    assert (await api.call("DELETE", f"{UNITS}/demo")).status == 204
    assert (await api.call("DELETE", f"{UNITS}/demo")).code == "gpuunit_not_found"
    assert (await api.call("GET", f"{UNITS}/demo")).code == "gpuunit_not_found"


async def test_stock_units_are_read_by_their_lifecycle(api: Service) -> None:
    assert (await api.call("GET", f"{UNITS}/p-1")).status == 404
    answer = await api.call("GET", f"{UNITS}/p-1?lifecycle=stock")
    assert answer.data["lifecycle"] == "stock"
    assert (answer.data["serviceName"], answer.data["accessURL"]) == ("", "")
    refusal = await api.call("GET", f"{UNITS}/p-1?lifecycle=all")
    assert (refusal.status, refusal.fields) == (400, ["lifecycle"])


async def test_given_fields_replace_and_absent_ones_stay(api: Service) -> None:
    await api.create(name="demo", template=WEB, access={"primaryPort": "http"})
    answer = await api.call("PUT", f"{UNITS}/demo", {"image": "python:3.13", "suspended": True})
    assert answer.status == 200
    assert (answer.data["image"], answer.data["suspended"]) == ("python:3.13", True)
    assert answer.data["template"]["command"] == ["python"]
    assert answer.data["generation"] == 2


async def test_a_template_can_be_sent_back_as_it_was_shown(api: Service) -> None:
    secret = {"name": "hub", "key": "token"}
    envs = [{"name": "A", "value": "1"}, {"name": "B", "secret": secret}]
    template = {**WEB, "envs": envs, "files": [{"path": "/etc/token", "secret": secret}]}
    shown = (await api.create(name="demo", template=template)).data["template"]
    answer = await api.call("PUT", f"{UNITS}/demo", {"template": shown})
    assert (answer.status, answer.data["template"]) == (200, shown)
    assert answer.data["generation"] == 1


async def test_an_access_can_be_sent_back_as_it_was_shown(api: Service) -> None:
    access = {"primaryPort": "http", "wake": True}
    shown = (await api.create(name="demo", template=WEB, access=access)).data["access"]
    assert {"slug", "urls"} <= set(shown)
    moved = {**shown, "slug": "other", "urls": {"http": "https://other.example.com"}}
    for sent in (shown, moved):
        answer = await api.call("PUT", f"{UNITS}/demo", {"access": sent})
        assert (answer.status, answer.data["access"]) == (200, shown)
        assert answer.data["generation"] == 1
    copy = await api.create("two", name="copy", template=WEB, access=shown)
    assert copy.status == 201
    refused = await api.call("PUT", f"{UNITS}/demo", {"access": {**shown, "slugs": ""}})
    assert (refused.status, refused.fields) == (400, ["access.slugs"])


async def test_null_clears_a_field(api: Service) -> None:
    await api.create(name="demo", template=WEB)
    answer = await api.call("PUT", f"{UNITS}/demo", {"template": None})
    assert answer.data["template"] == {
        "command": [],
        "args": [],
        "envs": [],
        "ports": [],
        "files": [],
    }


async def test_the_envelope_cannot_change(api: Service) -> None:
    await api.create(name="demo")
    answer = await api.call("PUT", f"{UNITS}/demo", {"memory": "32Gi", "gpu": 2})
    assert (answer.status, sorted(answer.fields)) == (400, ["gpu", "memory"])


async def test_a_change_needs_the_version_in_if_match(api: Service) -> None:
    etag = (await api.create(name="demo")).headers["ETag"]
    change = {"image": "python:3.13"}
    first = await api.call("PUT", f"{UNITS}/demo", change, headers={"If-Match": f'"x", {etag}'})
    assert first.status == 200
    stale = await api.call("PUT", f"{UNITS}/demo", change, headers={"If-Match": etag})
    assert (stale.status, stale.code) == (412, "precondition_failed")
    weak = {"If-Match": f"W/{first.headers['ETag']}"}
    assert (await api.call("PUT", f"{UNITS}/demo", change, headers=weak)).status == 412
    anything = await api.call("PUT", f"{UNITS}/demo", change, headers={"If-Match": "*"})
    assert anything.status == 200


async def test_a_deletion_needs_the_version_in_if_match(cluster: Cluster, api: Service) -> None:
    etag = (await api.create(name="demo")).headers["ETag"]
    now = (await api.call("PUT", f"{UNITS}/demo", {"image": "x"})).headers["ETag"]
    written = api.replica.transport.written()
    for header in ('"nope"', etag, f"W/{now}"):
        stale = await api.call("DELETE", f"{UNITS}/demo", headers={"If-Match": header})
        assert (stale.status, stale.code) == (412, "precondition_failed")
    malformed = await api.call("DELETE", f"{UNITS}/demo", headers={"If-Match": "abc"})
    assert (malformed.status, malformed.fields) == (400, ["If-Match"])
    assert api.replica.transport.written() == written
    headers = {"If-Match": f'"x", {now}'}
    assert (await api.call("DELETE", f"{UNITS}/demo", headers=headers)).status == 204
    assert cluster.units == []


async def test_if_match_with_a_star_deletes_any_version(api: Service) -> None:
    await api.create(name="demo")
    anything = await api.call("DELETE", f"{UNITS}/demo", headers={"If-Match": "*"})
    assert anything.status == 204
    gone = await api.call("DELETE", f"{UNITS}/demo", headers={"If-Match": '"nope"'})
    assert (gone.status, gone.code) == (404, "gpuunit_not_found")


async def test_a_malformed_if_match_is_reported(api: Service) -> None:
    await api.create(name="demo")
    for header in ("abc", '"a" "b"', '"a",', ""):
        answer = await api.call("PUT", f"{UNITS}/demo", {}, headers={"If-Match": header})
        assert (answer.status, answer.fields) == (400, ["If-Match"])


async def test_a_change_without_if_match_survives_concurrent_changes(api: Service) -> None:
    await api.create(name="demo")
    api.replica.transport.on("PUT", "demo", refused(409, "Conflict"), times=3)
    answer = await api.call("PUT", f"{UNITS}/demo", {"image": "python:3.13"})
    assert (answer.status, answer.data["image"]) == (200, "python:3.13")


@pytest.mark.parametrize("cancels_handlers", [False, True])
async def test_a_caller_that_leaves_does_not_stop_a_creation(
    cluster: Cluster, cancels_handlers: bool
) -> None:
    cluster.add_stock(3)
    async with service(cluster, cancels_handlers=cancels_handlers) as api:
        api.replica.transport.on("POST", "gpuunits", Fault(before_seconds=5.0))
        await _leave(api)
        cluster.assert_sound()
        assert [unit["metadata"]["name"] for unit in cluster.units] == ["demo"]
        assert (await api.create(name="demo")).status == 200


@pytest.mark.parametrize("cancels_handlers", [False, True])
async def test_a_refused_creation_releases_its_stock_after_the_caller_left(
    cluster: Cluster, cancels_handlers: bool
) -> None:
    cluster.add_stock(3)
    refusal = attrs.evolve(refused(403, "Forbidden"), before_seconds=5.0)
    async with service(cluster, cancels_handlers=cancels_handlers) as api:
        api.replica.transport.on("POST", "gpuunits", refusal)
        await _leave(api)
        assert (cluster.units, cluster.claimed) == ([], [])


async def _leave(api: Service) -> None:
    """Leave after a second, during the creation, and then let the creation end."""
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(1.0):
            await api.create(name="demo")
    await asyncio.sleep(10.0)


async def test_a_unit_beyond_a_quota_is_forbidden(api: Service) -> None:
    api.replica.transport.on("POST", "gpuunits", refused(403, "Forbidden"))
    answer = await api.create()
    assert (answer.status, answer.code) == (403, "forbidden")


async def test_a_busy_cluster_is_answered_with_a_retry_after(api: Service) -> None:
    busy = refused(429, "TooManyRequests", headers={"retry-after": "7"})
    api.replica.transport.on("GET", "gpuunits/nobody", busy)
    answer = await api.call("GET", f"{UNITS}/nobody")
    assert (answer.status, answer.code) == (429, "too_many_requests")
    assert answer.headers["Retry-After"] == "7"
