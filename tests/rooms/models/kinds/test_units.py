"""Units and pools are read as the API server sends them."""

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuruntime.models.definitions.schemas import schema_of_kind
from gpuruntime.models.encoding.codec import decode, encode, to_json
from gpuruntime.models.kinds.functions import Framework, Serverless
from gpuruntime.models.kinds.pools import STOCK_POOLS, StockPool, StockPoolSpec
from gpuruntime.models.kinds.templates import EnvVar, Port
from gpuruntime.models.kinds.units import GPU_UNITS, Access, GPUUnit, GPUUnitSpec
from gpuruntime.models.kubernetes.conditions import Condition
from tests.rooms.models.documents import documents

MODELS: dict[str, type[GPUUnit] | type[StockPool]] = {"GPUUnit": GPUUnit, "StockPool": StockPool}


def unit(spec: bytes) -> GPUUnitSpec:
    return decode(b'{"kind": "GPUUnit", "spec": ' + spec + b"}", GPUUnit).spec


def test_a_bare_unit_has_the_defaults_of_the_contract() -> None:
    spec = unit(b'{"specName": "g1.1"}')

    assert (spec.image, spec.cpu, spec.memory, spec.gpuProduct) == ("", "", "", "")
    assert (spec.gpu, spec.suspended, spec.serverless, spec.storageMounts) == (0, False, None, ())
    assert spec.access == Access(primaryPort="", scheme="http", readiness="tcp")
    assert to_json(spec.template) == {
        "command": [],
        "args": [],
        "envs": [],
        "ports": [],
        "files": [],
    }


def test_a_bare_function_has_the_defaults_of_the_contract() -> None:
    assert unit(b'{"specName": "g", "serverless": {"requestID": "fn"}}').serverless == Serverless(
        requestID="fn",
        minAvailableCount=0,
        maxWorkers=10,
        idleTimeoutSeconds=300,
        concurrency=1,
        timeoutSeconds=300,
        maxAttempts=5,
        framework=Framework(
            socketPath="/tmp/serverless-framework/framework.sock",
            invokePath="/invoke",
            healthPath="/healthz",
        ),
        workerOf=None,
    )


def test_a_bare_pool_refills() -> None:
    pool = decode(b'{"spec": {"specName": "g1.1", "replicas": 2}}', StockPool)

    assert pool.spec == StockPoolSpec(specName="g1.1", replicas=2, refill="Always", gpu=0)


def test_a_bad_quantity_reaches_the_controller() -> None:
    assert unit(b'{"specName": "g", "memory": "not-a-quantity"}').memory == "not-a-quantity"


def test_unknown_members_of_a_later_version_do_not_spoil_a_list() -> None:
    spec = unit(
        b"""{"specName": "g", "access": {"readiness": "grpc"}, "quota": {"a": 1},
        "template": {"ports": [{"name": "a", "port": 1, "protocol": "QUIC"}]}}"""
    )

    assert spec.access.readiness == "grpc"
    assert spec.template.ports == (Port(name="a", port=1, protocol="QUIC"),)


def test_nulls_read_as_absent() -> None:
    spec = unit(
        b"""{"specName": "g", "cpu": null, "access": null, "serverless": null,
        "template": {"args": null, "envs": [{"name": "A", "value": null}]}}"""
    )

    assert (spec.cpu, spec.access, spec.serverless) == ("", Access(), None)
    assert spec.template.envs == (EnvVar(name="A", value=""),)


def test_a_status_as_we_write_it() -> None:
    held = decode(
        b"""{"spec": {"specName": "g"}, "status": {
            "phase": "Ready", "readyReplicas": 1, "observedGeneration": 3, "nodeName": "gpu-0",
            "serviceName": "unit-a", "accessURL": "http://unit-a.n.svc.cluster.local:80",
            "timeline": {"acceptedAt": "2026-03-01T12:00:00.250000Z",
                         "createdAt": "2026-03-01T12:00:01Z"},
            "conditions": [{"type": "Ready", "status": "True", "reason": "DeploymentReady",
                            "message": "", "observedGeneration": 3,
                            "lastTransitionTime": "2026-03-01T12:00:02Z"}]}}""",
        GPUUnit,
    )

    assert held.status.timeline.acceptedAt == datetime(2026, 3, 1, 12, 0, 0, 250_000, tzinfo=UTC)
    assert held.status.conditions == (
        Condition(
            type="Ready",
            status="True",
            reason="DeploymentReady",
            observedGeneration=3,
            lastTransitionTime=datetime(2026, 3, 1, 12, 0, 2, tzinfo=UTC),
        ),
    )
    assert decode(encode(to_json(held)), GPUUnit) == held


def test_our_timestamps_keep_microseconds_and_the_servers_keep_seconds() -> None:
    timeline = {"claimedAt": "2026-03-01T12:00:00.250000Z", "createdAt": "2026-03-01T12:00:01Z"}

    held = decode(encode({"spec": {"specName": "g"}, "status": {"timeline": timeline}}), GPUUnit)

    assert to_json(held.status.timeline) == timeline


@given(data=st.data(), kind=st.sampled_from(sorted(MODELS)))
def test_every_document_of_the_schema_is_read_and_written_back_whole(
    data: st.DataObject, kind: str
) -> None:
    schema = schema_of_kind(MODELS[kind])["properties"]
    document = {
        "metadata": {"name": "a"},
        "spec": data.draw(documents(schema["spec"])),
        "status": data.draw(documents(schema["status"])),
    }

    held = decode(encode(document), MODELS[kind])

    assert decode(encode(to_json(held)), MODELS[kind]) == held
    assert_within(document["spec"], to_json(held.spec))


def assert_within(part: Any, whole: Any) -> None:
    """Assert that the written document contains the original; defaults may be added."""
    if isinstance(part, dict):
        for name, member in part.items():
            assert_within(member, whole[name])
    elif isinstance(part, list):
        assert len(part) == len(whole)
        for one, other in zip(part, whole, strict=True):
            assert_within(one, other)
    else:
        assert part == whole


@pytest.mark.parametrize(
    ("resource", "path"),
    [
        (GPU_UNITS, "/apis/runtime.lokiwager.io/v1alpha1/namespaces/n/gpuunits/a/status"),
        (STOCK_POOLS, "/apis/runtime.lokiwager.io/v1alpha1/namespaces/n/stockpools/a/status"),
    ],
    ids=["GPUUnit", "StockPool"],
)
def test_our_kinds_are_served_under_our_group(resource: Any, path: str) -> None:
    assert resource.path(namespace="n", name="a", subresource="status") == path
