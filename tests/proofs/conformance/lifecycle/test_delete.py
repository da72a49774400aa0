"""DELETE: preconditions, answers, grace periods and collections."""

import pytest

from tests.proofs.conformance.calls import Api, Document
from tests.proofs.conformance.definitions import widget
from tests.proofs.conformance.objects import PODS, config_map, pod


async def made(api: Api, maps: str, name: str = "a") -> Document:
    return (await api.post(maps, config_map(name))).ok(201)


async def test_a_deleted_object_is_gone(api: Api, maps: str) -> None:
    await made(api, maps)
    (await api.delete(f"{maps}/a")).ok(200)
    assert (await api.get(f"{maps}/a")).refusal == (404, "NotFound")


async def test_a_deletion_is_answered_with_a_status_that_names_the_object(
    api: Api, maps: str
) -> None:
    seen = await made(api, maps)
    answer = (await api.delete(f"{maps}/a")).ok(200)
    assert (answer["kind"], answer["status"]) == ("Status", "Success")
    assert answer["details"] == {
        "name": "a",
        "kind": "configmaps",
        "uid": seen["metadata"]["uid"],
    }


async def test_an_absent_object_is_404(api: Api, maps: str) -> None:
    assert (await api.delete(f"{maps}/a")).refusal == (404, "NotFound")


async def test_a_recreated_object_has_another_uid(api: Api, maps: str) -> None:
    first = await made(api, maps)
    (await api.delete(f"{maps}/a")).ok()
    second = await made(api, maps)
    assert second["metadata"]["uid"] != first["metadata"]["uid"]
    versions = [int(one["metadata"]["resourceVersion"]) for one in (first, second)]
    assert versions[0] < versions[1]


@pytest.mark.parametrize("guard", ["uid", "resourceVersion"])
async def test_a_deletion_with_a_current_precondition_succeeds(
    api: Api, maps: str, guard: str
) -> None:
    seen = await made(api, maps)
    options = {"preconditions": {guard: seen["metadata"][guard]}}
    (await api.delete(f"{maps}/a", options)).ok(200)
    assert (await api.get(f"{maps}/a")).status == 404


@pytest.mark.parametrize(
    "preconditions", [{"uid": "another"}, {"resourceVersion": "1"}], ids=["uid", "resourceVersion"]
)
async def test_a_precondition_that_fails_is_a_conflict(
    api: Api, maps: str, preconditions: dict[str, str]
) -> None:
    await made(api, maps)
    answer = await api.delete(f"{maps}/a", {"preconditions": preconditions})
    assert answer.refusal == (409, "Conflict")
    (await api.get(f"{maps}/a")).ok(200)


async def test_a_stale_version_is_a_conflict(api: Api, maps: str) -> None:
    seen = await made(api, maps)
    (await api.patch(f"{maps}/a", {"data": {"k": "v"}})).ok()
    version = seen["metadata"]["resourceVersion"]
    answer = await api.delete(f"{maps}/a", {"preconditions": {"resourceVersion": version}})
    assert answer.refusal == (409, "Conflict")


async def test_an_unknown_propagation_is_invalid(api: Api, maps: str) -> None:
    await made(api, maps)
    answer = await api.delete(f"{maps}/a", {"propagationPolicy": "Sideways"})
    assert answer.causes == {("propagationPolicy", "FieldValueNotSupported")}


async def test_a_dry_run_deletes_nothing(api: Api, maps: str) -> None:
    seen = await made(api, maps)
    (await api.delete(f"{maps}/a", dryRun="All")).ok(200)
    assert (await api.get(f"{maps}/a")).ok() == seen


async def test_a_deletion_of_a_collection_deletes_only_selected_objects(
    api: Api, maps: str
) -> None:
    for name, color in (("a", "red"), ("b", "blue"), ("c", "red")):
        (await api.post(maps, config_map(name, labels={"color": color}))).ok(201)
    (await api.delete(maps, labelSelector="color=red")).ok(200)
    left = (await api.get(maps, labelSelector="color")).ok()["items"]
    assert [one["metadata"]["name"] for one in left] == ["b"]


async def test_a_deleted_custom_object_is_answered_with_a_status_too(
    api: Api, widgets: str
) -> None:
    (await api.post(widgets, widget("a"))).ok(201)
    answer = (await api.delete(f"{widgets}/a")).ok(200)
    assert answer["kind"] == "Status"
    assert answer["details"]["kind"] == "widgets"
    assert answer["details"]["group"] == "conformance.example.com"


@pytest.fixture
def pods(namespace: str) -> str:
    return PODS.path(namespace=namespace)


async def waiting_pod(api: Api, pods: str) -> Document:
    """Create a Pod that fits no node, so that only the server takes part in its deletion."""
    body = pod("p", nodeSelector={"nowhere": "at-all"})
    return await api.admit(pods, body)


async def test_an_unassigned_pod_is_deleted_at_once(api: Api, pods: str) -> None:
    await waiting_pod(api, pods)
    answer = (await api.delete(f"{pods}/p")).ok(200)
    assert answer["kind"] == "Pod"
    assert (await api.get(f"{pods}/p")).status == 404


async def bound_pod(api: Api, pods: str) -> None:
    """Create a Pod on a node that does not exist: no kubelet ever ends it."""
    body = pod("p", nodeName="nobody-runs-this-node", terminationGracePeriodSeconds=40)
    await api.admit(pods, body)


async def test_an_assigned_pod_gets_its_own_grace_period(api: Api, pods: str) -> None:
    await bound_pod(api, pods)
    metadata = (await api.delete(f"{pods}/p")).ok(200)["metadata"]
    assert metadata["deletionGracePeriodSeconds"] == 40
    assert metadata["deletionTimestamp"] > metadata["creationTimestamp"]
    after = (await api.get(f"{pods}/p")).ok(200)["metadata"]
    assert after["deletionTimestamp"] == metadata["deletionTimestamp"]


async def test_a_requested_grace_period_takes_precedence(api: Api, pods: str) -> None:
    await bound_pod(api, pods)
    metadata = (await api.delete(f"{pods}/p", {"gracePeriodSeconds": 7})).ok(200)["metadata"]
    assert metadata["deletionGracePeriodSeconds"] == 7


async def test_a_grace_period_can_be_shortened_and_not_extended(api: Api, pods: str) -> None:
    await bound_pod(api, pods)
    for asked, expected in ((20, 20), (30, 20), (5, 5)):
        (await api.delete(f"{pods}/p", {"gracePeriodSeconds": asked})).ok(200)
        metadata = (await api.get(f"{pods}/p")).ok()["metadata"]
        assert metadata["deletionGracePeriodSeconds"] == expected


async def test_a_grace_period_of_zero_deletes_an_assigned_pod_at_once(api: Api, pods: str) -> None:
    await bound_pod(api, pods)
    (await api.delete(f"{pods}/p", {"gracePeriodSeconds": 0})).ok(200)
    assert (await api.get(f"{pods}/p")).status == 404
