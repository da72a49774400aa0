"""Bodies with a strange value at any place: the server accepts or refuses them and never fails."""

import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest

from gpuruntime.embedded.apiserver.server import Server
from gpuruntime.kube.transport import MERGE_PATCH, STRATEGIC_PATCH, Request
from gpuruntime.models.definitions.crds import crds
from tests.proofs.conformance import objects
from tests.proofs.conformance.definitions import widget_definition
from tests.rooms.embedded.calls import call, new_server

DEFINITIONS = objects.DEFINITIONS.path()
UNITS = "/apis/runtime.lokiwager.io/v1alpha1/namespaces/default/gpuunits"
STRANGE: list[Any] = [None, -1, 1.5, True, "", "a b", [], [None], [[]], {}, {"": {}}, 10**30]
EXPRESSION = {"key": "a", "operator": "In", "values": ["b"]}
AFFINITY = {
    "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchExpressions": [EXPRESSION]}]
        }
    }
}
UNIT = {
    "apiVersion": "runtime.lokiwager.io/v1alpha1",
    "kind": "GPUUnit",
    "metadata": {"name": "a", "labels": {"x": "y"}, "finalizers": ["example.com/x"]},
    "spec": {
        "specName": "g1",
        "cpu": "1",
        "gpu": 1,
        "template": {"envs": [{"name": "A", "value": "b"}], "ports": [{"name": "h", "port": 80}]},
    },
}
CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
ROLLING = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": 1}}
GOOD = {
    objects.CONFIG_MAPS.path(namespace="default"): objects.config_map("a", {"k": "v"}),
    objects.DEPLOYMENTS.path(namespace="default"): objects.deployment("a", strategy=ROLLING),
    objects.JOBS.path(namespace="default"): objects.job("a", completions=2, backoffLimit=3),
    objects.PODS.path(namespace="default"): objects.pod(
        "a", gpus=1, affinity=AFFINITY, volumes=[{"name": "v", "emptyDir": {}}]
    ),
    objects.SERVICES.path(namespace="default"): objects.named(
        objects.SERVICES, "a", spec={"ports": [{"port": 80, "targetPort": "http"}]}
    ),
    objects.VOLUME_CLAIMS.path(namespace="default"): objects.named(
        objects.VOLUME_CLAIMS, "a", spec=CLAIM
    ),
    objects.NODES.path(): objects.node("a", gpus=1),
    UNITS: UNIT,
    DEFINITIONS: widget_definition(),
}


@pytest.fixture(scope="module")
def server() -> Server:
    """Return a server with the definitions of our kinds and an object of each kind under test."""
    made = new_server()
    for definition in crds():
        call(made, "POST", DEFINITIONS, definition)
    for path, good in GOOD.items():
        assert call(made, "POST", path, good)["metadata"]["uid"]
    return made


def strangely(value: Any) -> Iterator[Any]:
    """Yield the value with each member in turn replaced by each strange value."""
    places = value.items() if isinstance(value, dict) else enumerate(value)
    for place, inner in list(places):
        for strange in STRANGE:
            changed = copy.copy(value)
            changed[place] = strange
            yield changed
        if isinstance(inner, dict | list):
            for changed_inner in strangely(inner):
                changed = copy.copy(value)
                changed[place] = changed_inner
                yield changed


@pytest.mark.parametrize("path", GOOD)
@pytest.mark.parametrize(
    ("method", "content_type"),
    [
        ("POST", "application/json"),
        ("PUT", "application/json"),
        ("PATCH", MERGE_PATCH),
        ("PATCH", STRATEGIC_PATCH),
    ],
)
def test_a_strange_member_gets_a_status_and_no_crash(
    server: Server, path: str, method: str, content_type: str
) -> None:
    """Use dry runs, so that each request meets the same server."""
    name = "" if method == "POST" else f"/{GOOD[path]['metadata']['name']}"
    for body in strangely(GOOD[path]):
        request = Request(
            method=method,
            path=path + name,
            query=(("dryRun", "All"),),
            body=json.dumps(body).encode(),
            content_type=content_type,
        )
        assert server.handle(request).status in {200, 201, 400, 404, 409, 415, 422}, request
