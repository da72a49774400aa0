"""Limits that admission policies add to the rights of accounts, on the real control plane."""

import itertools
import json
import ssl
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from operator import not_
from typing import Any

import pytest

from gpuruntime.models.kinds import labels
from gpuruntime.models.kinds.secrets import secret_name_of
from gpuruntime.operations.secrets import SECRETS_APP
from tests.eventually import eventually_blocking
from tests.proofs.real_cluster.controlplane import ControlPlane, ControlPlaneError
from tests.proofs.real_cluster.product import Installation, installation

pytestmark = pytest.mark.cluster

ROLES = ("manager", "api", "activator")
GROUP = "runtime.lokiwager.io"
STATUS = "a status can only be written by gpuruntime's manager"
ONLY_OF_TENANTS = "the api of gpuruntime may only write Secrets that it stores for tenants"
CLAIM = {"metadata": {"annotations": {f"{GROUP}/claimed-by": "elsewhere/mine"}}}
# A cluster administrator, and an editor with every right on our kinds.
EDITOR = """
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: editor-NAME}
rules:
- apiGroups: [runtime.lokiwager.io]
  resources: ["*"]
  verbs: ["*"]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: editor-NAME}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: editor-NAME}
subjects: [{kind: User, name: editor, apiGroup: rbac.authorization.k8s.io}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: administrator-NAME}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}
subjects: [{kind: User, name: administrator, apiGroup: rbac.authorization.k8s.io}]
"""


class Admitted:
    """An installation without processes, and writes under the names of other users."""

    def __init__(self, made: Installation) -> None:
        self.made = made
        self.at = made.stock
        made.plane.kubectl("apply", "-f", "-", stdin=EDITOR.replace("NAME", made.name))

    def account(self, role: str) -> str:
        return f"system:serviceaccount:{self.made.system}:gpuruntime-{role}"

    def create(self, user: str, name: str, **metadata: Any) -> None:
        document = {
            "apiVersion": f"{GROUP}/v1alpha1",
            "kind": "GPUUnit",
            "metadata": {"name": name, "namespace": self.at, **metadata},
            "spec": {"specName": "g1.1", "cpu": "1", "memory": "1Gi"},
        }
        self.made.plane.kubectl("create", "-f", "-", f"--as={user}", stdin=json.dumps(document))

    def patch(self, user: str, what: str, body: object) -> None:
        """Patch `kinds/name` or `kinds/name/status`, without kubectl's reads before it."""
        self.send(user, "PATCH", f"apis/{GROUP}/v1alpha1/namespaces/{self.at}/{what}", body)

    def send(self, user: str, method: str, path: str, body: object = None) -> None:
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        headers = {
            "Authorization": f"Bearer {self.made.plane.token}",
            "Content-Type": kind,
            "Impersonate-User": user,
        }
        url = f"{self.made.plane.url}/{path}"
        data = None if body is None else json.dumps(body).encode()
        asked = urllib.request.Request(url, data, headers, method=method)
        tls = ssl.create_default_context(cafile=self.made.plane.certificate)
        try:
            urllib.request.urlopen(asked, timeout=30, context=tls).close()
        except urllib.error.HTTPError as error:
            with error:
                raise ControlPlaneError(json.load(error)["message"]) from error

    def status(self, user: str, what: str, **status: Any) -> None:
        self.patch(user, f"{what}/status", {"status": status})

    def wait_until_enforced(self) -> None:
        """Return when the policies are in force; only writes that change something show it."""
        numbers = itertools.count()

        def is_enforced() -> bool:
            mark = f"elsewhere/{next(numbers)}"
            claim = {"metadata": {"annotations": {f"{GROUP}/claimed-by": mark}}}
            return refused(lambda: self.patch("editor", "gpuunits/seat", claim)) and refused(
                lambda: self.status("editor", "gpuunits/seat", nodeName=mark)
            )

        eventually_blocking(is_enforced)


def refused(act: Callable[[], None]) -> bool:
    try:
        act()
    except ControlPlaneError:
        return True
    return False


@pytest.fixture(scope="module")
def enforced(
    cluster: ControlPlane, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Installation]:
    with installation(cluster, tmp_path_factory.mktemp("admitted"), "admitted") as made:
        admitted = Admitted(made)
        admitted.create("editor", "seat")
        admitted.wait_until_enforced()
        made.plane.kubectl("-n", made.stock, "delete", "gpuunit", "seat")
        yield made


@pytest.fixture
def admitted(enforced: Installation) -> Iterator[Admitted]:
    """Start the test with one stock unit, and delete every unit and pool afterwards."""
    admitted = Admitted(enforced)
    admitted.create("editor", "seat")
    yield admitted
    for namespace in (enforced.stock, enforced.instance):
        enforced.plane.kubectl("-n", namespace, "delete", "gpuunits,stockpools", "--all")


def test_only_our_accounts_write_the_annotations_of_claims(admitted: Admitted) -> None:
    claims = "claimed-by of a unit can only be written by gpuruntime itself: ask its API"
    for number, role in enumerate(ROLES):
        claimed = {"metadata": {"annotations": {f"{GROUP}/claimed-by": f"elsewhere/{number}"}}}
        admitted.patch(admitted.account(role), "gpuunits/seat", claimed)
    free = {"metadata": {"annotations": {f"{GROUP}/claimed-by": None}}}
    for user in ("editor", admitted.account("results")):
        for body in (CLAIM, free):
            with pytest.raises(ControlPlaneError, match="forbidden"):
                admitted.patch(user, "gpuunits/seat", body)
    with pytest.raises(ControlPlaneError, match=claims):
        admitted.patch("editor", "gpuunits/seat", free)
    own = {f"{GROUP}/source-stock": "a/b", f"{GROUP}/operation-id": "mine"}
    with pytest.raises(ControlPlaneError, match=f"operation-id, {GROUP}/source-stock of a unit"):
        admitted.create("editor", "forged", annotations=own)


def test_an_editor_of_units_may_still_edit_everything_else(admitted: Admitted) -> None:
    admitted.patch(admitted.account("api"), "gpuunits/seat", CLAIM)
    change = {"metadata": {"labels": {"team": "a"}, "annotations": {"note": "mine"}}}
    admitted.patch("editor", "gpuunits/seat", {**change, "spec": {"image": "python:3.12"}})
    admitted.create("editor", "plain", annotations={"note": "mine"})
    admitted.made.plane.kubectl(
        "-n", admitted.made.stock, "delete", "gpuunit", "plain", "--as=editor"
    )


def test_only_the_manager_writes_a_unit_status_and_the_activator_its_serverless_part(
    admitted: Admitted,
) -> None:
    manager, activator = admitted.account("manager"), admitted.account("activator")
    admitted.at = admitted.made.instance
    admitted.create("editor", "unit")
    admitted.status(activator, "gpuunits/unit", serverless={"desiredWorkers": 1})
    admitted.status(manager, "gpuunits/unit", phase="Ready", nodeName="gpu-0")
    admitted.status(activator, "gpuunits/unit", serverless={"desiredWorkers": 2})
    for user in (activator, "editor"):
        for status in ({"phase": "Failed"}, {"readyReplicas": 3}, {"nodeName": None}):
            with pytest.raises(ControlPlaneError, match=STATUS):
                admitted.status(user, "gpuunits/unit", **status)
    with pytest.raises(ControlPlaneError, match=STATUS):
        admitted.status("editor", "gpuunits/unit", serverless={"desiredWorkers": 3})


def test_only_the_manager_writes_the_status_of_a_pool(admitted: Admitted) -> None:
    pool = {
        "apiVersion": f"{GROUP}/v1alpha1",
        "kind": "StockPool",
        "metadata": {"name": "pool", "namespace": admitted.made.stock},
        "spec": {"specName": "g1.1", "replicas": 0},
    }
    admitted.made.plane.kubectl("create", "-f", "-", "--as=editor", stdin=json.dumps(pool))
    admitted.status(admitted.account("manager"), "stockpools/pool", phase="Empty")
    with pytest.raises(ControlPlaneError, match=STATUS):
        admitted.status("editor", "stockpools/pool", phase="Ready")


def test_the_api_writes_the_secrets_of_tenants_and_no_others(admitted: Admitted) -> None:
    plane, instance = admitted.made.plane, admitted.made.instance
    api, path = admitted.account("api"), f"api/v1/namespaces/{instance}/secrets"
    name = secret_name_of("team", "hub")
    marks = {labels.APP_NAME: SECRETS_APP, labels.MANAGED_BY: labels.MANAGER}

    def secret(named: str = name, kind: str = "Opaque", **changed: str) -> dict[str, Any]:
        metadata = {"name": named, "labels": {**marks, **changed}}
        return {"apiVersion": "v1", "kind": "Secret", "type": kind, "metadata": metadata}

    def refused_words(method: str, to: str, body: object = None) -> str:
        with pytest.raises(ControlPlaneError) as caught:
            admitted.send(api, method, to, body)
        return str(caught.value)

    token = secret(kind="kubernetes.io/service-account-token")
    token["metadata"]["annotations"] = {"kubernetes.io/service-account.name": "default"}
    eventually_blocking(lambda: refused(lambda: admitted.send(api, "POST", path, token)))
    for body in (token, secret("worker"), secret(**{labels.APP_NAME: "gpuruntime-unit"})):
        assert ONLY_OF_TENANTS in refused_words("POST", path, body)
    admitted.send(api, "POST", path, secret())
    admitted.send(api, "PATCH", f"{path}/{name}", {"data": {"token": "YQ=="}})
    relabelled = {"metadata": {"labels": {labels.TENANT: "other"}}}
    assert "cannot change" in refused_words("PATCH", f"{path}/{name}", relabelled)
    plane.kubectl("-n", instance, "create", "secret", "generic", "foreign")
    stolen = {"metadata": {"labels": marks}, "data": {"token": "YQ=="}}
    assert ONLY_OF_TENANTS in refused_words("PATCH", f"{path}/foreign", stolen)
    assert ONLY_OF_TENANTS in refused_words("DELETE", f"{path}/foreign")
    admitted.send(api, "DELETE", f"{path}/{name}")
    plane.kubectl("-n", instance, "delete", "secret", "foreign")


def test_an_administrator_may_write_claims_and_statuses(admitted: Admitted) -> None:
    """Administrators need this in emergencies, to restore a backup, or to run a role locally."""
    admitted.patch(admitted.account("api"), "gpuunits/seat", CLAIM)
    free = {"metadata": {"annotations": {f"{GROUP}/claimed-by": None}}}
    admitted.patch("administrator", "gpuunits/seat", free)
    failed = {"status": {"phase": "Failed"}}
    admitted.patch("administrator", "gpuunits/seat/status", failed)


def test_the_policies_do_not_stop_the_garbage_collector(admitted: Admitted) -> None:
    """Claimed units are collected although their owner's foreground deletion waits for some."""
    plane, stock = admitted.made.plane, admitted.made.stock
    seat = json.loads(plane.kubectl("-n", stock, "get", "gpuunit", "seat", "-o", "json"))
    owner = {
        "apiVersion": f"{GROUP}/v1alpha1",
        "kind": "GPUUnit",
        "name": "seat",
        "uid": seat["metadata"]["uid"],
        "blockOwnerDeletion": True,
    }
    api = admitted.account("api")
    for name in ("owned", "kept"):
        admitted.create("editor", name, ownerReferences=[owner])
        admitted.patch(api, f"gpuunits/{name}", CLAIM)
    admitted.create("editor", "next", ownerReferences=[{**owner, "blockOwnerDeletion": False}])
    plane.kubectl("-n", stock, "delete", "gpuunit", "seat", "--cascade=foreground")
    eventually_blocking(lambda: admitted.made.objects("gpuunits", stock), not_)


def test_deleting_a_namespace_deletes_a_claimed_unit(
    install: Callable[[str], Installation],
) -> None:
    admitted = Admitted(install("ending"))
    admitted.create("editor", "seat")
    admitted.wait_until_enforced()
    admitted.patch(admitted.account("api"), "gpuunits/seat", CLAIM)
    admitted.made.plane.kubectl("delete", "namespace", admitted.at, "--timeout=60s")
