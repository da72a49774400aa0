"""Functions and their workers on an embedded cluster, in virtual time."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from gpuruntime.bus.messages import WorkerState
from gpuruntime.models.kinds import labels
from gpuruntime.models.kinds.units import GPU_UNITS
from gpuruntime.models.kubernetes.cluster import EVENTS
from tests.faults import ANSWER_LOST, DROPPED, UNREACHABLE, refused, slow
from tests.rooms.operations.cluster import INSTANCE, Cluster, notes
from tests.rooms.serverless.scaling.scaled import Scaled, scaled

pytestmark = pytest.mark.looptime


@asynccontextmanager
async def started(stock: int = 6) -> AsyncIterator[Scaled]:
    cluster = Cluster()
    cluster.add_stock(stock)
    async with scaled(cluster) as made:
        yield made


def make_somebody_elses(made: Scaled, name: str) -> None:
    body = {
        "apiVersion": GPU_UNITS.api_version,
        "kind": "GPUUnit",
        "metadata": {"name": name},
        "spec": {"specName": "g1.1"},
    }
    made.cluster.call("POST", GPU_UNITS.path(namespace=INSTANCE), body)


async def test_the_first_invocation_gets_a_worker_and_without_one_there_is_none() -> None:
    async with started() as made:
        made.declare()
        await made.queue()
        assert made.workers == []
        await made.queue(echo=1)
        assert made.workers == ["echo-w-1"]
        assert len(made.cluster.claimed) == 1


async def test_a_worker_belongs_to_the_template_and_has_its_spec() -> None:
    async with started() as made:
        template = made.declare(concurrency=3)
        await made.queue(echo=1)
        worker = made.unit("echo-w-1")
        [owner] = worker["metadata"]["ownerReferences"]
        assert owner["uid"] == template["metadata"]["uid"]
        assert worker["spec"]["image"] == "v1"
        assert worker["spec"]["serverless"]["concurrency"] == 3
        assert worker["spec"]["serverless"]["workerOf"]["name"] == "echo"
        assert notes(worker)[labels.OPERATION_ID].startswith("gpuruntime:worker:")


async def test_workers_follow_the_depth_up_to_the_maximum() -> None:
    async with started() as made:
        made.declare(concurrency=2)
        await made.queue(echo=5)
        assert len(made.workers) == 3
        await made.queue(echo=500)
        assert made.workers == [f"echo-w-{number}" for number in (1, 2, 3, 4)]


async def test_the_minimum_of_workers_exists_before_the_first_call() -> None:
    async with started() as made:
        made.declare(minAvailableCount=2)
        await asyncio.sleep(1)
        assert made.workers == ["echo-w-1", "echo-w-2"]


async def test_idle_workers_stay_for_their_idle_time_and_then_drain() -> None:
    async with started() as made:
        made.declare(idleTimeoutSeconds=60)
        await made.hold(4, echo=2)
        await made.make_ready()
        await made.queue(echo=0)
        await asyncio.sleep(50)
        assert made.draining == []
        await asyncio.sleep(12)
        assert made.draining == ["echo-w-1", "echo-w-2"]
        await made.drained("echo-w-1", "echo-w-2")
        assert made.workers == []


async def test_work_that_returns_in_time_keeps_the_worker() -> None:
    async with started() as made:
        made.declare(idleTimeoutSeconds=60)
        await made.queue(echo=1)
        await made.make_ready()
        for _ in range(4):
            await made.queue(50, echo=0)
            await made.queue(1, echo=1)
        assert (made.workers, made.draining) == (["echo-w-1"], [])


async def test_a_wake_up_alone_counts_as_work() -> None:
    async with started() as made:
        made.declare(idleTimeoutSeconds=60)
        await made.queue(echo=1)
        await made.make_ready()
        for _ in range(4):
            await made.queue(50, echo=0)
            await made.wake("echo")
        assert made.draining == []


async def test_a_worker_is_deleted_only_after_it_has_drained() -> None:
    async with started() as made:
        made.declare(idleTimeoutSeconds=0, timeoutSeconds=100)
        await made.queue(echo=1)
        await made.make_ready()
        await made.queue(echo=0)
        assert made.draining == ["echo-w-1"]
        await made.tell("echo-w-1", WorkerState.DRAINING, busy=1)
        await asyncio.sleep(60)
        assert made.workers == ["echo-w-1"]
        await made.drained("echo-w-1")
        assert made.workers == []


async def test_a_worker_that_never_ends_its_calls_is_deleted_after_one_attempts_time() -> None:
    async with started() as made:
        made.declare(idleTimeoutSeconds=0, timeoutSeconds=100)
        await made.queue(echo=1)
        await made.make_ready()
        await made.queue(echo=0)
        await asyncio.sleep(125)
        assert made.workers == ["echo-w-1"]
        await asyncio.sleep(10)
        assert made.workers == []


async def test_a_silent_worker_is_deleted_anyway() -> None:
    async with started() as made:
        made.activator.receiving_since = 0.0
        made.declare(idleTimeoutSeconds=0)
        await made.queue(echo=1)
        await made.queue(echo=0)
        await asyncio.sleep(20)
        assert made.workers == []


async def test_no_drain_mark_is_written_to_a_later_unit_of_the_workers_name() -> None:
    async with started() as made:
        made.declare(idleTimeoutSeconds=0)
        await made.queue(echo=1)
        await made.make_ready()
        made.transport.hold_watches()
        made.delete("echo-w-1")
        make_somebody_elses(made, "echo-w-1")
        await made.queue(5, echo=0)
        assert labels.DRAINING not in made.unit("echo-w-1")["metadata"].get("annotations", {})


async def test_work_that_arrives_while_the_last_worker_drains_gets_another_one() -> None:
    async with started() as made:
        made.declare(idleTimeoutSeconds=0)
        await made.queue(echo=1)
        await made.make_ready()
        await made.queue(echo=0)
        await made.queue(echo=1)
        assert made.workers == ["echo-w-1", "echo-w-2"]
        await made.drained("echo-w-1")
        assert made.workers == ["echo-w-2"]


async def test_the_lowest_free_number_is_reused() -> None:
    async with started() as made:
        made.declare()
        await made.queue(echo=3)
        made.delete("echo-w-2")
        await made.queue(echo=3)
        assert made.workers == ["echo-w-1", "echo-w-2", "echo-w-3"]


async def test_a_name_of_an_unrelated_unit_is_skipped() -> None:
    async with started() as made:
        make_somebody_elses(made, "echo-w-1")
        made.declare()
        await made.queue(echo=1)
        assert made.workers == ["echo-w-2"]


async def test_a_lack_of_stock_is_reported_and_ends_with_new_stock() -> None:
    async with started(stock=1) as made:
        made.declare()
        await made.queue(echo=3)
        assert made.workers == ["echo-w-1"]
        assert made.status()["reason"] == "insufficient_capacity"
        assert made.status()["desiredWorkers"] == 3
        made.cluster.add_stock(2, pool="q")
        await asyncio.sleep(0.5)
        assert len(made.workers) == 3
        assert made.status()["reason"] == ""
        told = made.cluster.objects(EVENTS, INSTANCE)
        assert {each["involvedObject"]["name"] for each in told} == {"echo"}
        assert [(each["type"], each["reason"]) for each in told] == [
            ("Warning", "InsufficientCapacity"),
            ("Normal", "ShortageEnded"),
        ]


async def test_without_stock_no_request_is_sent_to_the_cluster() -> None:
    async with started(stock=0) as made:
        made.declare()
        await made.queue(echo=3)
        made.transport.sent.clear()
        await made.hold(30, echo=3)
        asked = [each for each in made.transport.sent if not each.path.endswith("/status")]
        assert asked == []


async def test_a_worker_whose_container_fails_is_left_to_recover() -> None:
    async with started() as made:
        made.declare()
        await made.queue(echo=2)
        await made.make_unready("echo-w-1", "PodStartupFailed")
        await made.make_unready("echo-w-2", "PodStartupFailed")
        await made.hold(1_200, echo=9)
        assert made.workers == ["echo-w-1", "echo-w-2"]
        assert len(made.cluster.claimed) == 2
        assert made.status()["reason"] == "worker_failed"


async def test_a_worker_that_no_node_accepts_is_replaced_after_a_while() -> None:
    async with started() as made:
        made.activator.receiving_since = 0.0
        made.declare()
        await made.queue(echo=1)
        await made.make_unready("echo-w-1", "PodUnschedulable")
        await made.hold(100, echo=1)
        assert made.draining == []
        assert made.status()["reason"] == "worker_lost"
        await made.hold(60, echo=1)
        assert len(made.cluster.claimed) == 2
        assert len(made.workers) == 1
        assert made.draining == []


def uid_of(made: Scaled, name: str) -> str:
    uid: str = made.unit(name)["metadata"]["uid"]
    return uid


async def withdrawn(made: Scaled, name: str, seconds: int) -> bool:
    """Report every five seconds that it has drained; return whether it still exists."""
    uid = uid_of(made, name)
    for _ in range(seconds // 5):
        await made.tell(name, WorkerState.DRAINED)
        await made.queue(2.4, echo=1)
        await made.queue(2.4, echo=1)
        if name not in made.workers or uid_of(made, name) != uid:
            return False
    return True


async def test_a_worker_that_drained_without_an_order_is_replaced_after_a_while() -> None:
    async with started() as made:
        made.activator.receiving_since = 0.0
        made.declare(maxWorkers=1)
        await made.queue(echo=1)
        await made.make_ready()
        assert await withdrawn(made, "echo-w-1", 110)
        assert made.draining == []
        assert made.status()["reason"] == "worker_lost"
        assert not await withdrawn(made, "echo-w-1", 30)
        assert made.workers == ["echo-w-1"]
        assert made.status()["reason"] == ""


async def test_a_function_that_drains_its_own_workers_does_not_use_up_the_stock() -> None:
    async with started(stock=40) as made:
        made.activator.receiving_since = 0.0
        made.declare(maxWorkers=1)
        await made.queue(echo=1)
        ends_at = asyncio.get_running_loop().time() + 3_600
        while asyncio.get_running_loop().time() < ends_at:
            await made.make_ready("echo-w-1")
            await withdrawn(made, "echo-w-1", 900)
        assert 6 <= len(made.cluster.claimed) <= 14


async def test_replacements_are_spaced_by_their_back_off() -> None:
    async with started(stock=40) as made:
        made.activator.receiving_since = 0.0
        made.declare(maxWorkers=1)
        claims = 0
        for _ in range(600):
            await made.queue(6.0, echo=1)
            for name in made.workers:
                if name not in made.draining:
                    await made.make_unready(name, "PodUnschedulable")
            claims = len(made.cluster.claimed)
        assert 6 <= claims <= 14


def images(made: Scaled) -> dict[str, str]:
    return {name: made.unit(name)["spec"]["image"] for name in made.workers}


async def test_a_changed_image_replaces_one_worker_after_the_other() -> None:
    async with started(stock=9) as made:
        made.declare(minAvailableCount=2)
        await asyncio.sleep(1)
        await made.make_ready()
        made.change(image="v2")
        await asyncio.sleep(30)
        assert images(made) == {"echo-w-1": "v1", "echo-w-2": "v1", "echo-w-3": "v2"}
        assert made.draining == []
        await made.make_ready("echo-w-3")
        assert made.draining == ["echo-w-2"]
        await made.drained("echo-w-2")
        assert images(made) == {"echo-w-1": "v1", "echo-w-2": "v2", "echo-w-3": "v2"}
        await made.make_ready("echo-w-2")
        assert made.draining == ["echo-w-1"]
        await made.drained("echo-w-1")
        assert set(images(made).values()) == {"v2"}
        assert made.status()["outdatedWorkers"] == 0


async def test_the_only_worker_serves_until_its_successor_is_ready() -> None:
    async with started() as made:
        made.declare(minAvailableCount=1, maxWorkers=1)
        await asyncio.sleep(1)
        await made.make_ready()
        made.change(image="v2")
        await asyncio.sleep(30)
        assert (images(made), made.draining) == ({"echo-w-1": "v1", "echo-w-2": "v2"}, [])
        await made.make_ready("echo-w-2")
        assert made.draining == ["echo-w-1"]
        await made.drained("echo-w-1")
        assert images(made) == {"echo-w-2": "v2"}


async def test_without_spare_stock_the_old_worker_stays_until_there_is_some() -> None:
    async with started(stock=1) as made:
        made.declare(minAvailableCount=1, maxWorkers=1)
        await asyncio.sleep(1)
        await made.make_ready()
        made.change(image="v2")
        await asyncio.sleep(30)
        assert (images(made), made.draining) == ({"echo-w-1": "v1"}, [])
        status = made.status()
        assert (status["readyWorkers"], status["outdatedWorkers"]) == (1, 1)
        assert status["reason"] == "insufficient_capacity"
        assert status["message"] == (
            "no ready stock of g1.1 for the successor of echo-w-1, which stays"
        )
        made.cluster.add_stock(1, pool="more")
        await asyncio.sleep(1)
        assert images(made) == {"echo-w-1": "v1", "echo-w-2": "v2"}


async def test_a_failing_successor_keeps_the_old_worker_and_is_quoted() -> None:
    async with started() as made:
        made.declare(minAvailableCount=1, maxWorkers=1)
        await asyncio.sleep(1)
        await made.make_ready()
        made.change(image="bad")
        await asyncio.sleep(1)
        said = "pod/runtime: ImagePullBackOff: no such image"
        await made.make_unready("echo-w-2", "PodStartupFailed", said)
        await asyncio.sleep(300)
        assert (images(made), made.draining) == ({"echo-w-1": "v1", "echo-w-2": "bad"}, [])
        status = made.status()
        assert status["reason"] == "worker_failed"
        assert f"echo-w-2: image bad: {said}" in status["message"]
        made.change(image="v2")
        await asyncio.sleep(1)
        assert made.draining == ["echo-w-2"]
        await made.drained("echo-w-2")
        [successor] = {*made.workers} - {"echo-w-1"}
        await made.make_ready(successor)
        assert made.draining == ["echo-w-1"]


@pytest.mark.parametrize("members", [{"update": "Recreate"}, {}], ids=["Recreate", "a storage"])
async def test_a_worker_that_cannot_run_beside_its_successor_drains_first(
    members: dict[str, Any],
) -> None:
    async with started() as made:
        made.declare(minAvailableCount=1, maxWorkers=1, **members)
        await asyncio.sleep(1)
        await made.make_ready()
        mounts = [] if members else [{"name": "data", "mountPath": "/data"}]
        made.change(image="v2", storageMounts=mounts)
        await asyncio.sleep(5)
        assert (images(made), made.draining) == ({"echo-w-1": "v1"}, ["echo-w-1"])


async def test_a_new_leader_continues_an_update_without_further_workers() -> None:
    async with started() as made:
        made.declare(idleTimeoutSeconds=60, maxWorkers=4)
        await made.queue(echo=1)
        await made.make_ready()
        made.change(image="v2")
        await asyncio.sleep(1)
        cluster = made.cluster
    async with scaled(cluster, seed=2) as next_leader:
        await next_leader.make_ready("echo-w-2")
        assert next_leader.draining == ["echo-w-1"]
        await next_leader.drained("echo-w-1")
        await next_leader.queue(30)
        assert images(next_leader) == {"echo-w-2": "v2"}


async def test_changed_limits_do_not_change_workers() -> None:
    async with started() as made:
        made.declare(minAvailableCount=1)
        await asyncio.sleep(1)
        await made.make_ready()
        made.change(serverless={"minAvailableCount": 2, "maxWorkers": 9, "timeoutSeconds": 7})
        await asyncio.sleep(5)
        assert (made.workers, made.draining) == (["echo-w-1", "echo-w-2"], [])


async def test_a_suspended_function_has_no_workers_until_it_is_resumed() -> None:
    async with started() as made:
        made.declare(minAvailableCount=1)
        await asyncio.sleep(1)
        made.change(suspended=True)
        await asyncio.sleep(1)
        await made.queue(echo=5)
        assert made.draining == ["echo-w-1"]
        await made.drained("echo-w-1")
        assert made.workers == []
        assert made.status()["reason"] == "suspended"
        assert made.status()["depth"] == 5
        made.change(suspended=False)
        await asyncio.sleep(1)
        assert len(made.workers) == 4


async def test_scaling_never_writes_the_users_spec() -> None:
    async with started() as made:
        generation = made.declare()["metadata"]["generation"]
        await made.queue(echo=3)
        await made.make_ready()
        await made.queue(echo=0)
        assert made.unit("echo")["metadata"]["generation"] == generation


async def test_the_status_reports_workers_and_leaves_the_rest_to_the_manager() -> None:
    async with started() as made:
        made.declare()
        made.cluster.make_ready(INSTANCE, "echo")
        await made.queue(echo=2)
        await made.make_ready("echo-w-1")
        await made.tell("echo-w-1", WorkerState.READY, busy=1)
        await made.hold(12, echo=2)
        assert made.status() == {
            "desiredWorkers": 2,
            "readyWorkers": 1,
            "busyWorkers": 1,
            "drainingWorkers": 0,
            "outdatedWorkers": 0,
            "depth": 2,
            "oldestWaitSeconds": 0,
            "reason": "",
            "message": "",
        }
        assert made.unit("echo")["status"]["conditions"][0]["reason"] == "DeploymentReady"


async def test_no_status_is_written_to_a_later_unit_of_the_templates_name() -> None:
    async with started() as made:
        made.declare()
        await made.queue(echo=1)
        made.transport.hold_watches()
        made.delete("echo")
        made.declare(is_suspended=True)
        await made.queue(15, echo=2)
        assert made.status() == {}
        made.transport.release_watches()
        await made.queue(5)
        assert made.status()["reason"] == "suspended"


async def test_values_that_change_with_every_call_are_written_every_ten_seconds_at_most() -> None:
    async with started() as made:
        made.declare(idleTimeoutSeconds=3_600, concurrency=100)
        await made.queue(echo=1)
        await made.make_ready()
        made.transport.sent.clear()
        for depth in range(50):
            await made.queue(2.0, echo=depth + 1)
        told = [each for each in made.transport.sent if each.path.endswith("/echo/status")]
        assert 8 <= len(told) <= 11


async def test_a_worker_whose_last_call_ended_between_two_heartbeats_becomes_idle() -> None:
    async with started() as made:
        made.let_consumer_stand()
        made.declare(minAvailableCount=1, idleTimeoutSeconds=0)
        await asyncio.sleep(1)
        await made.make_ready()
        await made.tell("echo-w-1", WorkerState.READY, busy=1)
        await made.hold(30, echo=1)
        assert made.status()["busyWorkers"] == 1
        await made.queue(4)
        await made.tell("echo-w-1", WorkerState.READY)
        await made.hold(30)
        assert made.status()["busyWorkers"] == 0


async def test_an_idle_function_causes_no_requests() -> None:
    async with started() as made:
        made.declare(minAvailableCount=1)
        await asyncio.sleep(1)
        await made.make_ready()
        await asyncio.sleep(30)
        made.transport.sent.clear()
        await made.hold(600)
        assert [each for each in made.transport.sent if each.method != "GET"] == []


async def test_the_newer_of_two_declarers_of_a_function_gets_no_workers() -> None:
    async with started() as made:
        made.declare()
        await asyncio.sleep(2)
        made.declare("other", requestID="echo")
        await made.queue(echo=2)
        assert made.workers == ["echo-w-1", "echo-w-2"]


async def test_the_newer_declarer_takes_over_when_the_older_is_deleted() -> None:
    async with started() as made:
        made.declare()
        await asyncio.sleep(2)
        made.declare("other", requestID="echo")
        await asyncio.sleep(1)
        made.delete("echo")
        await asyncio.sleep(1)
        await made.queue(echo=1)
        assert made.workers == ["other-w-1"]


async def test_an_invalid_template_gets_no_workers() -> None:
    async with started() as made:
        made.declare()
        await made.make_unready("echo", "ServerlessConfigInvalid")
        path = GPU_UNITS.path(namespace=INSTANCE, name="echo", subresource="status")
        conditions = made.unit("echo")["status"]["conditions"]
        conditions[0]["observedGeneration"] = 1
        made.cluster.call("PATCH", path, {"status": {"conditions": conditions}})
        await asyncio.sleep(1)
        await made.queue(echo=3)
        assert made.workers == []
        assert made.status()["reason"] == "invalid_spec"


async def test_a_lost_answer_creates_no_second_worker_and_takes_no_second_stock() -> None:
    async with started() as made:
        made.declare(maxWorkers=1)
        made.transport.on("POST", "gpuunits", ANSWER_LOST)
        made.transport.on("GET", "gpuunits/echo-w-1", UNREACHABLE, times=3)
        await made.hold(30, echo=9)
        assert made.workers == ["echo-w-1"]
        assert len(made.cluster.claimed) == 1


async def test_a_claim_of_unknown_outcome_is_continued() -> None:
    async with started() as made:
        made.declare(maxWorkers=1)
        made.transport.on("POST", "gpuunits", DROPPED)
        made.transport.on("GET", "gpuunits/echo-w-1", UNREACHABLE, times=1)
        await made.queue(echo=9)
        assert made.workers == []
        assert made.status()["reason"] in ("timeout", "service_unavailable")
        await made.hold(20, echo=9)
        assert made.workers == ["echo-w-1"]
        assert len(made.cluster.claimed) == 1
        assert made.status()["reason"] == ""


async def test_one_functions_slow_claim_delays_no_other() -> None:
    async with started() as made:
        made.declare("slow")
        made.declare("quick")
        made.transport.on("PATCH", "stock/gpuunits", slow(before=20))
        await made.queue(slow=1)
        await made.queue(slow=1, quick=1)
        assert made.workers == ["quick-w-1"]
        await asyncio.sleep(25)
        assert made.workers == ["quick-w-1", "slow-w-1"]


async def test_one_functions_failure_delays_no_other() -> None:
    async with started() as made:
        made.declare("bad")
        made.declare("good")
        made.transport.on("POST", "gpuunits", refused(403, "Forbidden"))
        await made.queue(bad=1)
        await made.queue(bad=1, good=1)
        assert made.workers == ["good-w-1"]
        assert made.status("bad")["reason"] == "forbidden"
        await made.hold(12, bad=1, good=1)
        assert made.workers == ["bad-w-1", "good-w-1"]


async def test_one_failed_claim_of_two_is_reported() -> None:
    async with started() as made:
        made.declare()
        made.transport.on("POST", "gpuunits", refused(403, "Forbidden"))
        await made.queue(echo=2)
        assert len(made.workers) == 1
        assert made.status()["reason"] == "forbidden"
        await made.hold(12, echo=2)
        assert len(made.workers) == 2
        assert made.status()["reason"] == ""


async def test_workers_stay_as_they_are_during_an_outage_of_the_broker() -> None:
    async with started() as made:
        made.declare(idleTimeoutSeconds=10)
        await made.queue(echo=2)
        await made.make_ready()
        made.activator.depth_poller.forget()
        await asyncio.sleep(600)
        assert (made.workers, made.draining) == (["echo-w-1", "echo-w-2"], [])


async def test_the_idle_time_starts_again_when_the_broker_is_back() -> None:
    async with started() as made:
        made.declare(idleTimeoutSeconds=60)
        await made.queue(echo=2)
        await made.make_ready()
        made.activator.depth_poller.forget()
        await asyncio.sleep(600)
        await made.queue(50)
        assert made.draining == []
        await made.queue(15)
        assert made.draining == ["echo-w-1", "echo-w-2"]


async def test_a_new_leader_gives_existing_workers_their_idle_time() -> None:
    async with started() as made:
        made.declare(idleTimeoutSeconds=60)
        await made.queue(echo=2)
        await made.make_ready()
        cluster = made.cluster
    async with scaled(cluster, seed=2) as next_leader:
        await next_leader.queue(50)
        assert next_leader.draining == []
        await next_leader.queue(15)
        assert next_leader.draining == ["echo-w-1", "echo-w-2"]


async def test_a_new_leader_completes_the_drains_of_its_predecessor() -> None:
    async with started() as made:
        made.declare(idleTimeoutSeconds=0)
        await made.queue(echo=1)
        await made.make_ready()
        await made.queue(echo=0)
        cluster = made.cluster
    async with scaled(cluster, seed=2) as next_leader:
        await next_leader.queue(echo=1)
        assert next_leader.workers == ["echo-w-1", "echo-w-2"]
        await next_leader.drained("echo-w-1")
        assert next_leader.workers == ["echo-w-2"]
