"""The gateway role on a real control plane, under its own account of the manifests.

Pods are simulated, so a caller who is admitted reaches no unit.
"""

import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, Final

import attrs
import pytest

from tests.eventually import equals, eventually_blocking
from tests.proofs.product.audit_log import Request, requests_since
from tests.proofs.real_cluster.controlplane import ControlPlane, ControlPlaneError
from tests.proofs.real_cluster.fixtures import started
from tests.proofs.real_cluster.product import Caller, Installation, Process, installation
from tests.rooms.manifests import rights
from tests.rooms.manifests.rights import Right

pytestmark = pytest.mark.cluster

ACCOUNT: Final = "gpuruntime-gateway"
SPEC: Final = "reach.1"
ENVELOPE: Final = {"specName": SPEC, "cpu": "10m", "memory": "16Mi"}
PORTS: Final = {"ports": [{"name": "http", "port": 8080}]}
RIGHTS: Final = sorted(right for right in rights.granted() if right.role == "gateway")
# What a caller is told who was admitted to a unit that runs nowhere, or behind another network.
OF_UNIT: Final = ("upstream_fault", "timeout", "")
# The gateway asks the cluster for one unit this often, and changes nothing otherwise.
REST_SECONDS: Final = 25.0


@attrs.frozen
class Reach:
    """An installation with one gateway, and a unit that declares a port."""

    made: Installation
    gateway: Process
    caller: Caller

    @property
    def plane(self) -> ControlPlane:
        return self.made.plane

    def events(self, size: int = 0) -> list[dict[str, Any]]:
        """Return the audit events of the gateway's account since the log had this size."""
        own = f"{rights.ACCOUNTS}{self.made.system}:{ACCOUNT}"
        return [
            event for event in self.plane.audit_events(size) if event["user"]["username"] == own
        ]

    def may(self, right: Right) -> bool:
        resource = f"{right.resource}.{right.group}" if right.group else right.resource
        account = f"--as={rights.ACCOUNTS}{self.made.system}:{ACCOUNT}"
        with suppress(ControlPlaneError):
            answer = self.plane.kubectl(
                "auth", "can-i", right.verb, resource, account, "-n", self.made.instance
            )
            return answer.strip() == "yes"
        return False

    def answer(self, ticket: str) -> tuple[int, str]:
        """Return status and code of a request with the ticket; the unit's answer has no code."""
        url = f"{self.gateway.said('gateway listening')['address']}/units/web/ports/8080/"
        headers = {"Host": "gateway.units.example.com", "Authorization": f"Bearer {ticket}"}
        try:
            request = urllib.request.Request(url, headers=headers)
            with urllib.request.urlopen(request, timeout=30) as answer:
                return answer.status, ""
        except urllib.error.HTTPError as error:
            with error:
                status, text = error.code, error.read()
        code = json.loads(text)["error"]["code"] if text.startswith(b'{"error"') else ""
        return status, str(code)


@pytest.fixture(scope="module")
def plane(
    tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config
) -> Iterator[ControlPlane]:
    """Yield a control plane of its own: in the shared one no right may ever be missing."""
    yield from started(tmp_path_factory, pytestconfig)


@pytest.fixture(scope="module")
def reach(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reach]:
    with installation(plane, tmp_path_factory.mktemp("reach"), "reach") as made:
        manager, api = made.manager(gateway=made.reach), made.api(gateway=made.reach)
        gateway = made.gateway()
        for process in (manager, api, gateway):
            process.wait_until_ready()
        caller = Caller(api.address)
        body = {"operationID": "web", "name": "web", "image": "python:3.12", "specName": SPEC}
        pool = {"operationID": "pool", "name": "pool", "replicas": 1, **ENVELOPE}
        assert caller.post("/operator/stockpools", pool).status == 202
        caller.until("/operator/stockpools/pool", lambda view: view["available"] == 1)
        assert caller.post("/gpu-units", {**body, "template": PORTS}).status == 201
        caller.until("/gpu-units/web", lambda view: view["phase"] == "Ready")
        yield Reach(made, gateway, caller)


def test_a_ticket_of_the_api_counts_until_it_is_revoked(reach: Reach) -> None:
    asked = {"uses": ["http"], "port": "http"}
    answer = reach.caller.post("/gpu-units/web/tickets", asked)
    assert answer.status == 201, answer.document
    ticket = answer.data["ticket"]
    eventually_blocking(lambda: reach.answer(ticket)[1], lambda code: code in OF_UNIT)
    assert reach.answer("no.such.ticket") == (403, "ticket_refused")
    assert reach.caller.post("/gpu-units/web/tickets/revoke", {}).status == 200
    eventually_blocking(lambda: reach.answer(ticket), equals((403, "ticket_refused")))


def test_the_gateway_uses_exactly_the_rights_of_its_role(reach: Reach) -> None:
    assert rights.lines(rights.used(reach.events())) == rights.lines(RIGHTS)
    assert rights.lines(rights.refused(reach.events())) == ""


@pytest.fixture
def without(reach: Reach) -> Iterator[Callable[[Right], None]]:
    """Return a function that takes a right away until the test ends."""
    named = ("-n", reach.made.instance, "role", ACCOUNT)
    role = json.loads(reach.plane.kubectl("get", *named, "-o", "json"))

    def patch(rules: list[dict[str, Any]]) -> None:
        text = json.dumps({"rules": rules})
        reach.plane.kubectl("patch", *named, "--type=merge", "-p", text)

    def take(right: Right) -> None:
        patch([less(rule, right) for rule in role["rules"]])
        eventually_blocking(lambda: reach.may(right), equals(False))

    yield take
    patch(role["rules"])
    eventually_blocking(lambda: all(map(reach.may, RIGHTS)))


def less(rule: dict[str, Any], right: Right) -> dict[str, Any]:
    if rule["resources"] != [right.resource]:
        return rule
    return {**rule, "verbs": [verb for verb in rule["verbs"] if verb != right.verb]}


@pytest.mark.parametrize("right", RIGHTS, ids=lambda right: f"{right.verb} {right.resource}")
def test_a_gateway_without_a_right_lacks_it_and_nothing_else(
    reach: Reach, without: Callable[[Right], None], right: Right
) -> None:
    """A gateway that may not list is never ready; without a watch its mirror fails."""
    without(right)
    size = reach.plane.audit_size()
    gateway = reach.made.gateway()
    eventually_blocking(lambda: rights.refused(reach.events(size)), equals({right}))
    failures = "gpuruntime_informer_failures_total"
    mirror = "units" if right.resource == "gpuunits" else "services"
    eventually_blocking(lambda: gateway.metric(failures, mirror=mirror))
    assert rights.refused(reach.events(size)) == {right}
    gateway.kill()


def test_a_gateway_at_rest_writes_nothing(reach: Reach) -> None:
    size = reach.plane.audit_size()
    time.sleep(REST_SECONDS)
    found: list[Request] = [
        each
        for each in requests_since(reach.plane, size, reach.made.system)
        if each.user == ACCOUNT
    ]
    assert [each for each in found if each.is_write] == []
    assert {(each.verb, each.resource) for each in found} >= {("list", "gpuunits")}
    assert len(found) < REST_SECONDS
