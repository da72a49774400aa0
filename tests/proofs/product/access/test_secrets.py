"""Secrets on a real API server, under the api's own account: stored, used, and never read."""

import base64
from typing import Any

import pytest

from gpuruntime.models.kinds.secrets import secret_name_of
from tests.eventually import eventually_blocking
from tests.proofs.product.conftest import Product
from tests.proofs.real_cluster.controlplane import ControlPlaneError
from tests.rooms.manifests import rights

pytestmark = pytest.mark.cluster

CANARY = "canary4711"
SPEC = {"specName": "secret.1", "cpu": "10m", "memory": "16Mi"}
TEMPLATE = {
    "envs": [{"name": "TOKEN", "secret": {"name": "hub", "key": "token"}}],
    "files": [{"path": "/etc/hub/token", "secret": {"name": "hub", "key": "token"}}],
}
LOGIN = {"server": "registry.example.com", "username": "ann", "password": CANARY}
VERBS = ("get", "list", "watch", "update", "deletecollection", "create", "patch", "delete")
ALLOWED = ("create", "patch", "delete")


def values(product: Product, name: str) -> Any:
    found = product.made.objects("secrets", product.made.instance)
    return next(
        (
            {key: base64.b64decode(text).decode() for key, text in each["data"].items()}
            for each in found
            if each["metadata"]["name"] == name
        ),
        None,
    )


def test_a_tenants_secret_is_stored_mounted_listed_and_deleted(product: Product) -> None:
    caller, name = product.caller, secret_name_of("team", "hub")
    first = {"name": "hub", "tenant": "team", "data": {"token": "old", "gone": "x"}}
    second = {**first, "data": {"token": CANARY}}
    login = {"name": "images", "tenant": "team", "type": "registry", "registry": LOGIN}
    answers = [caller.post("/secrets", body) for body in (first, second, login)]
    assert [each.status for each in answers] == [201, 200, 201]
    assert values(product, name) == {"token": CANARY}, "no key of before is left"
    assert CANARY in values(product, secret_name_of("team", "images"))[".dockerconfigjson"]

    pool = {"operationID": "secret-pool", "name": "secret-pool", "replicas": 1, **SPEC}
    assert caller.post("/operator/stockpools", pool).status == 202
    caller.until("/operator/stockpools/secret-pool", lambda view: view["available"] == 1)
    unit = {"operationID": "guarded", "name": "guarded", "specName": "secret.1", "image": "a"}
    more = {"tenant": "team", "template": TEMPLATE, "imagePullSecrets": ["images"]}
    assert caller.post("/gpu-units", {**unit, **more}).status == 201
    caller.until("/gpu-units/guarded", lambda view: view["phase"] == "Ready")
    [pod] = (
        each["spec"]
        for each in product.made.objects("pods", product.made.instance)
        if each["metadata"]["labels"].get("runtime.lokiwager.io/unit") == "guarded"
    )
    [container] = pod["containers"]
    reference = {"name": name, "key": "token"}
    assert container["env"][-1] == {"name": "TOKEN", "valueFrom": {"secretKeyRef": reference}}
    assert pod["volumes"][-1]["secret"]["secretName"] == name
    assert {"name": secret_name_of("team", "images")} in pod["imagePullSecrets"]

    listed = caller.get("/secrets?tenant=team")
    assert [each["name"] for each in listed.data] == ["hub", "images"]
    assert caller.get("/secrets").data == []
    assert caller.delete("/secrets/hub").status == 404
    for secret in ("hub", "images"):
        assert caller.delete(f"/secrets/{secret}?tenant=team").status == 204
        assert values(product, secret_name_of("team", secret)) is None
    assert caller.get("/secrets?tenant=team").data == []
    assert caller.delete("/gpu-units/guarded").status == 204
    assert caller.delete("/operator/stockpools/secret-pool").status == 204
    for answer in answers:
        assert CANARY not in str(answer)
    for process in (product.manager, *product.apis):
        assert CANARY not in process.log.read_text()


@pytest.mark.parametrize("verb", VERBS)
def test_the_apis_account_may_write_secrets_and_not_read_them(product: Product, verb: str) -> None:
    account = f"--as={rights.ACCOUNTS}{product.made.system}:gpuruntime-api"

    def verdict() -> str:
        try:
            asked = ("auth", "can-i", verb, "secrets", "-n", product.made.instance)
            return product.kubectl(*asked, account).strip()
        except ControlPlaneError as error:  # kubectl exits with 1 for a no
            return str(error)

    expected = "yes" if verb in ALLOWED else "no"
    eventually_blocking(verdict, lambda said: said.startswith("yes") == (expected == "yes"))
