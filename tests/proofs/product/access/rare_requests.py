"""Stories in which the roles send their rare requests: lost races, leftovers, deletions.

These requests need rights, too. Each story acts as an operator or a caller, or answers a role as
an API server answers the loser of a race.
"""

import json
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Any, Final

from gpuruntime.models.kinds import labels
from gpuruntime.models.kinds.tombstones import EXPIRES_AT
from gpuruntime.reconcilers.stock.pool_status import USED_UP_AT
from tests.eventually import equals, eventually_blocking
from tests.proofs.real_cluster.product import Caller, Installation
from tests.proofs.real_cluster.proxy import Fault, Proxy, Refusal, Script, Write
from tests.rooms.manifests.overlays import everything

API_VERSION = f"{labels.GROUP}/v1alpha1"
SPEC = "rare.1"
ENVELOPE = {"specName": SPEC, "cpu": "10m", "memory": "16Mi"}
PORTS = {"ports": [{"name": "http", "port": 8080}]}
FILL = {"fromImage": "busybox:1.36", "command": ["true"]}
LATE_SECONDS = 120.0
LONG_AGO = "2020-01-01T00:00:00Z"
# A role that loses a race to its own earlier attempt answers as it answers a replay.
MADE = (200, 201, 202)


def losing_every_race() -> Script:
    """Return a script in which every role loses each race once.

    The first create of each name is done, and answered as if the object had existed already. The
    first patch of a unit is answered as if the unit had changed meanwhile.
    """
    seen: set[str] = set()

    def script(write: Write) -> Fault | None:
        if str(write) in seen:
            return None
        seen.add(str(write))
        if write.method == "POST":
            return Fault(refusal=Refusal(409, "AlreadyExists"), is_done=True)
        if write.method == "PATCH" and "/gpuunits/" in write.path and "/status" not in write.path:
            return Fault(refusal=Refusal(409, "Conflict"))
        return None

    return script


def function(name: str, **serverless: Any) -> dict[str, Any]:
    """Return the spec of a function whose envelope fits both containers of a worker."""
    declared = {"requestID": name, "idleTimeoutSeconds": 0, **serverless}
    return {
        **ENVELOPE,
        "memory": "1Gi",
        "specName": "rare.4",
        "image": "a",
        "serverless": declared,
    }


class RareRequests:
    """An installation with functions, in which every role loses each race once."""

    def __init__(self, made: Installation, between: Callable[[], Proxy], queue: str) -> None:
        self.made = made
        self._between = between
        self._nats = {"url": queue}
        self.start_manager()
        api = made.api(server=self._losing(), nats=self._nats)
        activator = made.activator(server=self._losing(), nats=self._nats)
        gateway = made.gateway(server=self._losing())
        for process in (api, activator, gateway):
            process.wait_until_ready()
        self.caller = Caller(api.address)
        for pool, envelope in (
            ("stock", ENVELOPE),
            ("workers", {**ENVELOPE, "specName": "rare.4", "memory": "1Gi"}),
        ):
            body = {"operationID": pool, "name": pool, "replicas": 3, **envelope}
            assert self.caller.post("/operator/stockpools", body).status in MADE
            self.caller.until(f"/operator/stockpools/{pool}", lambda view: view["available"] == 3)

    def start_manager(self) -> None:
        self.manager = self.made.manager(
            server=self._losing(), nats=self._nats, gateway=self.made.reach
        )
        self.manager.wait_until_ready()

    def _losing(self) -> str:
        proxy = self._between()
        proxy.script = losing_every_race()
        return proxy.url

    def kubectl(self, *arguments: str, stdin: str = "") -> str:
        return self.made.plane.kubectl(*arguments, stdin=stdin)

    def apply(self, kind: str, namespace: str, name: str, spec: Any, **metadata: Any) -> None:
        document = {
            "apiVersion": API_VERSION,
            "kind": kind,
            "metadata": {"name": name, "namespace": namespace, **metadata},
            "spec": spec,
        }
        self.kubectl("apply", "-f", "-", stdin=json.dumps(document))

    def find(self, kind: str, namespace: str, name: str) -> Any:
        """Return the object, or None if it does not exist."""
        found = self.made.objects(kind, namespace)
        return next((each for each in found if each["metadata"]["name"] == name), None)

    def wait_until_gone(self, kind: str, namespace: str, name: str, seconds: float = 60.0) -> None:
        eventually_blocking(
            lambda: self.find(kind, namespace, name),
            lambda one: one is None,
            within_seconds=seconds,
        )

    def ready(self, name: str) -> Any:
        return self.caller.until(f"/gpu-units/{name}", lambda view: view["phase"] == "Ready")

    def claim(self, name: str, **members: Any) -> None:
        body = {"operationID": name, "name": name, "specName": SPEC, "image": "python:3.12"}
        assert (
            self.caller.post("/gpu-units", {**body, "template": PORTS, **members}).status in MADE
        )
        self.ready(name)

    def _reasons(self, unit: str) -> list[str]:
        """Return the reasons of the Events about the unit."""
        found = self.made.objects("events", self.made.instance)
        return [each["reason"] for each in found if each["involvedObject"]["name"] == unit]

    def a_unit_is_changed_looked_into_and_ended(self) -> None:
        self.claim("web")
        assert self.caller.put("/gpu-units/web", {"image": "python:3.13"}).status == 200
        assert self.caller.get("/gpu-units/web/events").status == 200
        self.caller.get("/gpu-units/web/logs")
        self.caller.get("/gpu-units/nobody?lifecycle=stock")
        for kind, child in (("service", "unit-web"), ("deployment", "unit-web")):
            self.kubectl("-n", self.made.instance, "delete", kind, child)
            eventually_blocking(lambda: self.find(f"{kind}s", self.made.instance, child))  # noqa: B023
        self.caller.put("/gpu-units/web", {"template": {"ports": []}})
        self.wait_until_gone("services", self.made.instance, "unit-web")
        asleep = {"suspended": True, "access": {"wake": True}}
        assert self.caller.put("/gpu-units/web", asleep).status == 200
        assert self.caller.post("/gpu-units/web/wake", {}).status == 202
        eventually_blocking(lambda: "Woken" in self._reasons("web"))
        assert self.caller.delete("/gpu-units/web").status == 204

    def a_storage_is_filled_grown_and_ended(self) -> None:
        body = {"operationID": "disk", "name": "disk", "size": "1Gi", "prepare": FILL}
        served = {**body, "accessor": {"enabled": True}}
        assert self.caller.post("/gpu-storages", served).status in MADE
        eventually_blocking(lambda: self.made.objects("jobs", self.made.instance))
        assert self.caller.put("/gpu-storages/disk", {"size": "2Gi"}).status == 200
        server = "storage-accessor-disk"
        eventually_blocking(lambda: self.find("deployments", self.made.instance, server))
        off = {"accessor": {"enabled": False}}
        assert self.caller.put("/gpu-storages/disk", off).status == 200
        self.wait_until_gone("deployments", self.made.instance, server)
        assert self.caller.delete("/gpu-storages/disk").status == 204
        self.wait_until_gone("gpustorages", self.made.instance, "disk", LATE_SECONDS)

    def a_secret_is_stored_again_and_ended(self) -> None:
        for value in ("first", "second"):
            body = {"name": "hub", "data": {"token": value}}
            assert self.caller.post("/secrets", body).status in MADE
        assert self.caller.get("/secrets").data[0]["name"] == "hub"
        assert self.caller.delete("/secrets/hub").status == 204

    def what_a_pool_holds_is_changed_and_removed(self) -> None:
        body = {"operationID": "other", "name": "other", **ENVELOPE, "specName": "rare.2"}
        assert self.caller.post("/operator/stockpools", {**body, "replicas": 1}).status in MADE
        self.caller.until("/operator/stockpools/other", lambda pool: pool["available"] == 1)
        assert self.caller.put("/operator/stockpools/other", {"replicas": 0}).status == 200
        self.wait_until_gone("gpuunits", self.made.stock, "other-1")
        assert self.caller.delete("/operator/stockpools/other").status == 204
        self.wait_until_gone("stockpools", self.made.stock, "other", LATE_SECONDS)

    def a_job_has_no_pod(self) -> None:
        """Let a quota keep a Job from its Pod, which Kubernetes reports only as an Event."""
        quota = {"hard": {"count/pods": "0"}}
        document = {
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": {"name": "none", "namespace": self.made.instance},
            "spec": quota,
        }
        self.kubectl("apply", "-f", "-", stdin=json.dumps(document))
        self.apply("GPUStorage", self.made.instance, "podless", {"size": "1Gi", "prepare": FILL})
        self.caller.until(
            "/gpu-storages/podless", lambda view: "quota" in view["message"], seconds=LATE_SECONDS
        )
        self.kubectl("-n", self.made.instance, "delete", "resourcequota", "none")
        self.kubectl("-n", self.made.instance, "delete", "gpustorage", "podless", "--wait=false")

    def a_unit_comes_back_after_its_operation_was_over(self) -> None:
        self.claim("back")
        unit = self.find("gpuunits", self.made.instance, "back")
        assert self.caller.delete("/gpu-units/back").status == 204
        self.wait_until_gone("gpuunits", self.made.instance, "back")
        marks = unit["metadata"]["annotations"]
        kept = {name: marks[name] for name in (labels.OPERATION_ID, labels.REQUEST_HASH)}
        self.apply("GPUUnit", self.made.instance, "back", ENVELOPE, annotations=kept)
        self.wait_until_gone("gpuunits", self.made.instance, "back")

    def a_storage_comes_back_after_its_operation_was_over(self) -> None:
        body = {"operationID": "empty", "name": "empty", "size": "1Gi"}
        assert self.caller.post("/gpu-storages", body).status in MADE
        storage = self.find("gpustorages", self.made.instance, "empty")
        assert self.caller.delete("/gpu-storages/empty").status == 204
        self.wait_until_gone("gpustorages", self.made.instance, "empty", LATE_SECONDS)
        marks = storage["metadata"]["annotations"]
        kept = {name: marks[name] for name in (labels.OPERATION_ID, labels.REQUEST_HASH)}
        spec = {"size": "1Gi"}
        self.apply("GPUStorage", self.made.instance, "empty", spec, annotations=kept)
        self.wait_until_gone("gpustorages", self.made.instance, "empty", LATE_SECONDS)

    def a_unit_names_stock_that_nobody_has(self) -> None:
        marks = {
            labels.OPERATION_ID: "robbed",
            labels.REQUEST_HASH: "0" * 64,
            labels.SOURCE_STOCK: f"{self.made.stock}/gone-1",
            labels.SOURCE_STOCK_UID: "gone",
        }
        self.apply("GPUUnit", self.made.instance, "robbed", ENVELOPE, annotations=marks)
        self.ready("robbed")

    def stock_is_left_by_a_pool_that_is_gone(self) -> None:
        left = {"labels": {labels.POOL: "ghost"}, "annotations": {labels.POOL_UID: "gone"}}
        self.apply("GPUUnit", self.made.stock, "ghost-1", ENVELOPE, **left)
        self.wait_until_gone("gpuunits", self.made.stock, "ghost-1")

    def somebody_edits_a_reservation(self) -> None:
        [deployment, *_] = self.made.objects("deployments", self.made.stock)
        name = deployment["metadata"]["name"]
        self.kubectl("-n", self.made.stock, "scale", f"deployment/{name}", "--replicas=0")
        eventually_blocking(
            lambda: self.find("deployments", self.made.stock, name)["spec"]["replicas"],
            equals(1),
        )

    def stock_fails_twice_for_one_reason(self) -> None:
        """Let stock fail twice, so that the count of the first Event is increased."""
        [pod, *_] = self.made.objects("pods", self.made.stock)
        for _ in range(2):
            self._set_pod(pod, {"waiting": {"reason": "ErrImagePull", "message": "no such image"}})
            self._until_stock(pod, "Failed")
            self._set_pod(pod, {"running": {}})
            self._until_stock(pod, "Ready")

    def a_used_up_pool_goes_and_the_last_of_its_operation(self) -> None:
        body = {"operationID": "once", "replicas": 1, **ENVELOPE, "specName": "rare.3"}
        assert self.caller.post("/operator/stock-units", body).status in MADE
        self.caller.until("/operator/jobs/once", lambda job: job["ready"] == 1)
        [pool] = (
            each["metadata"]["name"]
            for each in self.made.objects("stockpools", self.made.stock)
            if each["spec"]["specName"] == "rare.3"
        )
        self.claim("last", specName="rare.3")

        def marks() -> Any:
            return self.find("stockpools", self.made.stock, pool)["metadata"]["annotations"]

        eventually_blocking(marks, lambda found: USED_UP_AT in found)
        self._predate("stockpool", self.made.stock, pool, USED_UP_AT)
        self.wait_until_gone("stockpools", self.made.stock, pool, LATE_SECONDS)
        tombstone = eventually_blocking(lambda: self._tombstone_of("once"))
        self._predate("configmap", self.made.system, tombstone, EXPIRES_AT)
        self.wait_until_gone("configmaps", self.made.system, tombstone, LATE_SECONDS)

    def callers_are_looked_up(self) -> None:
        """Let the api review a caller that has a valid token and no rights here."""
        for document in everything("full"):
            if document["metadata"]["name"].endswith("-reviews"):
                text = json.dumps(document).replace('"runtime-', f'"{self.made.name}-')
                self.kubectl("apply", "-f", "-", stdin=text)
        account = f"/api/v1/namespaces/{self.made.system}/serviceaccounts/gpuruntime-results"
        asked = {"spec": {"audiences": ["gpuruntime"]}}
        token = self.made.plane.request("POST", f"{account}/token", asked)["status"]["token"]
        api = self.made.api(auth={"mode": "kubernetes"})
        api.wait_until_ready()

        def status() -> int:
            request = urllib.request.Request(f"{api.address}/api/v1/gpu-units")
            request.add_header("Authorization", f"Bearer {token}")
            try:
                with urllib.request.urlopen(request, timeout=10) as answer:
                    return int(answer.status)
            except urllib.error.HTTPError as error:
                with error:
                    return error.code

        eventually_blocking(status, equals(403))

    def a_function_has_a_worker_whose_login_is_edited(self) -> None:
        """Leave an earlier worker's Secret, then edit the new one; a new leader restores it."""
        seat, secret = "echo-w-1", "unit-echo-w-1"
        left = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {
                "name": secret,
                "namespace": self.made.instance,
                "finalizers": [f"{labels.GROUP}/test"],
                "ownerReferences": [
                    {
                        "apiVersion": API_VERSION,
                        "kind": "GPUUnit",
                        "name": seat,
                        "uid": "gone",
                        "controller": True,
                    }
                ],
            },
        }
        self.kubectl("apply", "-f", "-", stdin=json.dumps(left))
        self.apply("GPUUnit", self.made.instance, "echo", function("echo", minAvailableCount=1))
        eventually_blocking(lambda: self.find("gpuunits", self.made.instance, seat))
        eventually_blocking(lambda: self._deletes_of(secret))
        free = json.dumps({"metadata": {"finalizers": None}})
        at = ("-n", self.made.instance)
        self.kubectl(*at, "patch", "secret", secret, "--type=merge", "-p", free)
        self.ready(seat)
        edited = json.dumps({"stringData": {"worker.yaml": "edited"}})
        self.kubectl(*at, "patch", "secret", secret, "-p", edited)
        version = self.find("secrets", self.made.instance, secret)["metadata"]["resourceVersion"]
        assert self.manager.stop() == 0
        self.start_manager()
        eventually_blocking(
            lambda: self.find("secrets", self.made.instance, secret)["metadata"],
            lambda metadata: metadata["resourceVersion"] != version,
        )
        assert self.caller.put("/gpu-units/echo", {"suspended": True}).status == 200
        self.wait_until_gone("gpuunits", self.made.instance, seat)

    def a_function_mounts_what_is_not_there(self) -> None:
        """Report a missing mount twice, so that the count of the first Event is increased."""
        mounting = function("disk", minAvailableCount=1, maxWorkers=1)
        mounts = [{"name": "nowhere", "mountPath": "/data"}]
        spec = {**mounting, "storageMounts": mounts}
        self.apply("GPUUnit", self.made.instance, "mounting", spec)

        def reason() -> str:
            unit = self.find("gpuunits", self.made.instance, "mounting")
            return str(unit.get("status", {}).get("serverless", {}).get("reason", ""))

        lacking = eventually_blocking(reason)
        for is_suspended, told in ((True, "suspended"), (False, lacking)):
            change = json.dumps({"spec": {"suspended": is_suspended}})
            unit = ("-n", self.made.instance, "gpuunit", "mounting")
            self.kubectl("patch", *unit, "--type=merge", "-p", change)
            eventually_blocking(reason, equals(told))

    def _deletes_of(self, secret: str) -> list[Any]:
        return [
            event
            for event in self.made.plane.audit_events()
            if event["verb"] == "delete" and event.get("objectRef", {}).get("name") == secret
        ]

    def _tombstone_of(self, operation: str) -> str:
        """Return the name of the operation's tombstone, or nothing."""
        maps = [each["metadata"] for each in self.made.objects("configmaps", self.made.system)]
        marks = {each["name"]: each.get("annotations", {}) for each in maps}
        return next(
            (name for name in marks if marks[name].get(labels.OPERATION_ID) == operation), ""
        )

    def _predate(self, kind: str, namespace: str, name: str, mark: str) -> None:
        """Move the moment of an annotation into the past, instead of waiting for hours."""
        self.kubectl("-n", namespace, "annotate", kind, name, f"{mark}={LONG_AGO}", "--overwrite")

    def _set_pod(self, pod: dict[str, Any], state: dict[str, Any]) -> None:
        is_running = "running" in state
        [container] = pod["spec"]["containers"]
        status = {
            "conditions": [
                {"type": kind, "status": str(is_running)} for kind in ("Ready", "ContainersReady")
            ],
            "containerStatuses": [
                {
                    "name": container["name"],
                    "image": container["image"],
                    "imageID": "",
                    "ready": is_running,
                    "restartCount": 0,
                    "state": state,
                }
            ],
        }
        place = ("-n", self.made.stock, "--subresource=status")
        self.kubectl(
            "patch", "pod", pod["metadata"]["name"], *place, "-p", json.dumps({"status": status})
        )

    def _until_stock(self, pod: dict[str, Any], phase: str) -> None:
        name = pod["metadata"]["labels"][labels.UNIT]
        eventually_blocking(
            lambda: self.find("gpuunits", self.made.stock, name)["status"]["phase"],
            equals(phase),
        )


# The order matters, because the last stories wait for time to pass.
STORIES: Final = (
    RareRequests.a_unit_is_changed_looked_into_and_ended,
    RareRequests.a_storage_is_filled_grown_and_ended,
    RareRequests.a_secret_is_stored_again_and_ended,
    RareRequests.what_a_pool_holds_is_changed_and_removed,
    RareRequests.a_job_has_no_pod,
    RareRequests.a_unit_comes_back_after_its_operation_was_over,
    RareRequests.a_storage_comes_back_after_its_operation_was_over,
    RareRequests.a_unit_names_stock_that_nobody_has,
    RareRequests.stock_is_left_by_a_pool_that_is_gone,
    RareRequests.somebody_edits_a_reservation,
    RareRequests.stock_fails_twice_for_one_reason,
    RareRequests.callers_are_looked_up,
    RareRequests.a_function_has_a_worker_whose_login_is_edited,
    RareRequests.a_function_mounts_what_is_not_there,
    RareRequests.a_used_up_pool_goes_and_the_last_of_its_operation,
)
