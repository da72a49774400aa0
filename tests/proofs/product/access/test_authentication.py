"""Callers reviewed by a real API server, which the api asks with the rights of its component."""

import base64
import json
import subprocess
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from tests.eventually import equals, eventually_blocking
from tests.proofs.real_cluster.product import Installation
from tests.rooms.manifests.overlays import MANIFESTS

pytestmark = pytest.mark.cluster

READER = """
apiVersion: v1
kind: ServiceAccount
metadata: {name: reader, namespace: INSTANCE}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: reader, namespace: INSTANCE}
rules:
- {apiGroups: [runtime.lokiwager.io], resources: [gpuunits], verbs: [list]}
- {apiGroups: [runtime.lokiwager.io], resources: [functions], verbs: [list]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: reader, namespace: INSTANCE}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: reader}
subjects:
- {kind: ServiceAccount, name: reader, namespace: INSTANCE}
"""


def allow_reviews(made: Installation) -> None:
    """Apply the component that lets this installation's api review callers."""
    text = (MANIFESTS / "authentication" / "review-access.yaml").read_text()
    role, binding = yaml.safe_load_all(
        text.replace("namespace: runtime-", f"namespace: {made.name}-")
    )
    made.plane.kubectl("apply", "-f", "-", stdin=json.dumps(role))
    made.plane.kubectl("apply", "-f", "-", stdin=json.dumps(binding))


def token(made: Installation, audience: str) -> str:
    path = f"/api/v1/namespaces/{made.instance}/serviceaccounts/reader/token"
    spec = {"expirationSeconds": 3600, "audiences": [audience]}
    answer = made.plane.request("POST", path, {"spec": spec})
    return str(answer["status"]["token"])


def expired(made: Installation, valid: str) -> str:
    """Return the token moved back by a day, which no cluster issues: only its time is wrong."""
    head, claims, _ = valid.split(".")
    known = json.loads(_decoded(claims))
    for moment in ("exp", "iat", "nbf"):
        known[moment] -= 86_400
    return signed(made, f"{head}.{_encoded(json.dumps(known).encode())}")


def signed(made: Installation, text: str) -> str:
    key = Path(made.plane.certificate).with_suffix(".key")
    command = ("openssl", "dgst", "-sha256", "-sign", str(key))
    made_of = subprocess.run(command, input=text.encode(), capture_output=True, check=True)
    return f"{text}.{_encoded(made_of.stdout)}"


def _decoded(part: str) -> bytes:
    return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))


def _encoded(part: bytes) -> str:
    return base64.urlsafe_b64encode(part).rstrip(b"=").decode()


def status(address: str, path: str, token: str) -> int:
    headers = {"Authorization": f"Bearer {token}"}
    asked = urllib.request.Request(f"{address}/api/v1{path}", headers=headers)
    try:
        with urllib.request.urlopen(asked, timeout=30) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code


def test_the_cluster_decides_about_callers_and_their_rights(
    install: Callable[[str], Installation],
) -> None:
    made = install("judged")
    made.plane.kubectl("apply", "-f", "-", stdin=READER.replace("INSTANCE", made.instance))
    api = made.api(auth={"mode": "kubernetes"})
    api.wait_until_ready()
    ours, theirs = token(made, "gpuruntime"), token(made, "https://kubernetes.default.svc")

    assert status(api.address, "/gpu-units", ours) == 503, "the api may not ask yet"
    allow_reviews(made)
    eventually_blocking(lambda: status(api.address, "/gpu-units", ours), equals(200))
    assert status(api.address, "/gpu-units?lifecycle=stock", ours) == 403
    assert status(api.address, "/gpu-units/any", ours) == 403
    assert status(api.address, "/operator/stockpools", ours) == 403
    assert status(api.address, "/serverless/functions", ours) == 503, "allowed, and off"
    again = signed(made, ours.rpartition(".")[0])
    assert status(api.address, "/gpu-units", again) == 200, "signed as the cluster does"
    for unknown in (theirs, ours[:-4], expired(made, ours), "guessed", made.plane.token):
        assert status(api.address, "/gpu-units", unknown) == 401
    withdrawn = token(made, "gpuruntime")
    made.plane.kubectl("delete", "serviceaccount", "reader", "-n", made.instance)
    assert status(api.address, "/gpu-units", withdrawn) == 401
    assert ours not in api.log.read_text()
