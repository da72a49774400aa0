"""Callers judged by a real API server, which the api asks with the rights of the component."""

import json
import urllib.error
import urllib.request
from collections.abc import Callable

import pytest
import yaml

from tests.cluster.product import MANIFESTS, Installation, until

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
    """The component, for the account of this installation."""
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


def status(address: str, path: str, token: str) -> int:
    headers = {"Authorization": f"Bearer {token}"}
    asked = urllib.request.Request(f"{address}/api/v1{path}", headers=headers)
    try:
        with urllib.request.urlopen(asked, timeout=30) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code


def test_the_cluster_says_who_calls_and_what_they_may(
    install: Callable[[str], Installation],
) -> None:
    made = install("judged")
    made.plane.kubectl("apply", "-f", "-", stdin=READER.replace("INSTANCE", made.instance))
    api = made.api(auth={"mode": "kubernetes"})
    api.wait_until_ready()
    ours, theirs = token(made, "gpuruntime"), token(made, "https://kubernetes.default.svc")

    assert status(api.address, "/gpu-units", ours) == 503, "the api may not ask yet"
    allow_reviews(made)
    until(lambda: status(api.address, "/gpu-units", ours), lambda found: found == 200)
    assert status(api.address, "/gpu-units?lifecycle=stock", ours) == 403
    assert status(api.address, "/gpu-units/any", ours) == 403
    assert status(api.address, "/operator/stockpools", ours) == 403
    assert status(api.address, "/serverless/functions", ours) == 503, "allowed, and off"
    for unknown in (theirs, ours[:-4], "guessed", made.plane.token):
        assert status(api.address, "/gpu-units", unknown) == 401
    assert ours not in api.log.read_text()
