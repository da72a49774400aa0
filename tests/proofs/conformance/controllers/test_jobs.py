"""Jobs: success, failure, limits, and deletion after the end."""

import pytest

from tests.proofs.conformance.calls import Api, Document
from tests.proofs.conformance.objects import JOBS, PODS, job

pytestmark = pytest.mark.usefixtures("controllers")

# These Pods stay Pending, so that a test can set their phase itself.
NOWHERE = {"nodeSelector": {"nowhere": "at-all"}}


@pytest.fixture
def jobs(namespace: str) -> str:
    return JOBS.path(namespace=namespace)


@pytest.fixture
def pods(namespace: str) -> str:
    return PODS.path(namespace=namespace)


def has_ended(seen: Document, kind: str) -> bool:
    conditions = seen.get("status", {}).get("conditions") or []
    return any((one["type"], one["status"]) == (kind, "True") for one in conditions)


def reason(seen: Document, kind: str) -> str:
    return str(next(one for one in seen["status"]["conditions"] if one["type"] == kind)["reason"])


async def pending(api: Api, pods: str, count: int = 1) -> list[Document]:
    """Return the pending Pods once there are `count` of them."""

    async def look() -> list[Document]:
        found = (await api.get(pods)).ok()["items"]
        return [one for one in found if one["status"]["phase"] == "Pending"]

    return await api.until(look, lambda seen: len(seen) == count)


async def end(api: Api, pods: str, one: Document, phase: str) -> None:
    path = f"{pods}/{one['metadata']['name']}/status"
    (await api.patch(path, {"status": {"phase": phase}})).ok(200)


async def test_a_job_runs_until_it_succeeds(api: Api, jobs: str, pods: str) -> None:
    (await api.post(jobs, job("j"))).ok(201)
    seen = await api.settled(f"{jobs}/j", lambda one: has_ended(one, "Complete"))
    assert seen["status"]["succeeded"] == 1
    assert seen["status"]["completionTime"] >= seen["status"]["startTime"]
    assert not seen["status"].get("active")
    (one,) = (await api.get(pods)).ok()["items"]
    assert one["status"]["phase"] == "Succeeded"
    assert one["metadata"]["ownerReferences"][0]["uid"] == seen["metadata"]["uid"]


async def test_pods_of_a_job_carry_its_labels(api: Api, jobs: str, pods: str) -> None:
    made = (await api.post(jobs, job("j", template=NOWHERE))).ok(201)
    (one,) = await pending(api, pods)
    labels = one["metadata"]["labels"]
    assert labels["batch.kubernetes.io/job-name"] == labels["job-name"] == "j"
    assert labels["batch.kubernetes.io/controller-uid"] == made["metadata"]["uid"]
    selector = made["spec"]["selector"]["matchLabels"]
    assert selector == {"batch.kubernetes.io/controller-uid": made["metadata"]["uid"]}


async def test_an_active_job_is_reported_as_active(api: Api, jobs: str) -> None:
    (await api.post(jobs, job("j", template=NOWHERE))).ok(201)
    seen = await api.settled(f"{jobs}/j", lambda one: one.get("status", {}).get("active") == 1)
    assert seen["status"]["startTime"]
    assert "conditions" not in seen["status"]


async def test_a_job_without_retries_fails_with_its_pod(api: Api, jobs: str, pods: str) -> None:
    (await api.post(jobs, job("j", template=NOWHERE, backoffLimit=0))).ok(201)
    (one,) = await pending(api, pods)
    await end(api, pods, one, "Failed")
    seen = await api.settled(f"{jobs}/j", lambda each: has_ended(each, "Failed"))
    assert reason(seen, "Failed") == "BackoffLimitExceeded"
    assert seen["status"]["failed"] == 1
    assert "completionTime" not in seen["status"]


async def test_a_job_with_a_remaining_retry_survives_a_failed_pod(
    api: Api, jobs: str, pods: str
) -> None:
    (await api.post(jobs, job("j", template=NOWHERE, backoffLimit=1))).ok(201)
    (first,) = await pending(api, pods)
    await end(api, pods, first, "Failed")
    seen = await api.settled(f"{jobs}/j", lambda one: one["status"].get("failed") == 1)
    assert not has_ended(seen, "Failed")


async def test_a_job_past_its_deadline_fails(api: Api, jobs: str, pods: str) -> None:
    (await api.post(jobs, job("j", template=NOWHERE, activeDeadlineSeconds=1))).ok(201)
    seen = await api.settled(f"{jobs}/j", lambda one: has_ended(one, "Failed"))
    assert reason(seen, "Failed") == "DeadlineExceeded"

    async def look() -> list[Document]:
        found: list[Document] = (await api.get(pods)).ok()["items"]
        return found

    await api.until(look, lambda found: not found)


async def test_several_completions_run_in_parallel(api: Api, jobs: str, pods: str) -> None:
    body = job("j", template=NOWHERE, completions=3, parallelism=2)
    (await api.post(jobs, body)).ok(201)
    for one in await pending(api, pods, 2):
        await end(api, pods, one, "Succeeded")
    (last,) = await pending(api, pods, 1)
    await end(api, pods, last, "Succeeded")
    seen = await api.settled(f"{jobs}/j", lambda one: has_ended(one, "Complete"))
    assert seen["status"]["succeeded"] == 3


async def test_a_suspended_job_creates_no_pods(api: Api, jobs: str, pods: str) -> None:
    (await api.post(jobs, job("j", suspend=True))).ok(201)
    await api.settled(f"{jobs}/j", lambda one: has_ended(one, "Suspended"))
    assert (await api.get(pods)).ok()["items"] == []
    (await api.patch(f"{jobs}/j", {"spec": {"suspend": False}})).ok(200)
    await api.settled(f"{jobs}/j", lambda one: has_ended(one, "Complete"))


async def test_a_finished_job_is_deleted_after_its_time_to_live(api: Api, jobs: str) -> None:
    (await api.post(jobs, job("j", ttlSecondsAfterFinished=0))).ok(201)
    await api.gone(f"{jobs}/j")


async def test_a_deleted_job_deletes_its_pods(api: Api, jobs: str, pods: str) -> None:
    (await api.post(jobs, job("j", template=NOWHERE))).ok(201)
    (one,) = await pending(api, pods)
    (await api.delete(f"{jobs}/j", {"propagationPolicy": "Background"})).ok(200)
    await api.gone(f"{pods}/{one['metadata']['name']}")


async def test_a_template_cannot_change(api: Api, jobs: str) -> None:
    (await api.post(jobs, job("j", template=NOWHERE))).ok(201)
    patch = {"spec": {"template": {"spec": {"terminationGracePeriodSeconds": 1}}}}
    answer = await api.patch(f"{jobs}/j", patch)
    assert answer.causes == {("spec.template", "FieldValueInvalid")}


async def test_pods_of_a_job_cannot_restart_always(api: Api, jobs: str) -> None:
    answer = await api.post(jobs, job("j", template={"restartPolicy": "Always"}))
    field = "spec.template.spec.restartPolicy"
    assert answer.causes == {(field, "FieldValueRequired")}
