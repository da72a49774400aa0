"""Well-formed bodies that are no valid patch, options or scale: each is refused with a Status."""

import json

import pytest

from tests.proofs.conformance.calls import STRATEGIC_PATCH, Api
from tests.proofs.conformance.objects import DEPLOYMENTS, deployment

JSON_PATCH = "application/json-patch+json"


@pytest.fixture
def deployments(namespace: str) -> str:
    return DEPLOYMENTS.path(namespace=namespace)


def containers(*items: object, **members: object) -> object:
    return {"spec": {"template": {"spec": {"containers": [*items], **members}}}}


@pytest.mark.parametrize(
    "operations",
    [
        [None],
        ["text"],
        [{}],
        [{"op": "remove"}],
        [{"op": "remove", "path": None}],
        [{"op": "remove", "path": "/kind/x"}],
        [{"op": "dance", "path": "/spec"}],
        [{"op": "move", "path": "/spec/x", "from": None}],
        [{"op": "add", "path": "/spec/template/spec/containers/one", "value": {}}],
        [{"op": "remove", "path": "/spec/template/spec/containers/9"}],
    ],
    ids=json.dumps,
)
async def test_an_invalid_json_patch_operation_is_refused(
    api: Api, deployments: str, operations: object
) -> None:
    (await api.post(deployments, deployment("a"))).ok(201)
    answer = await api.patch(f"{deployments}/a", operations, content_type=JSON_PATCH)
    assert answer.status in {400, 422}, answer.body
    assert answer.body["kind"] == "Status"


@pytest.mark.parametrize(
    "patch",
    [
        containers("text"),
        containers(None),
        containers([]),
        containers({"image": "x"}),
        containers({"name": "main", "$patch": "dance"}),
        {"spec": "text"},
        {"spec": {"template": {"spec": {"$setElementOrder/containers": ["text"]}}}},
    ],
    ids=json.dumps,
)
async def test_a_strategic_patch_that_does_not_fit_is_refused(
    api: Api, deployments: str, patch: object
) -> None:
    """Accept 500 as well, because the real server answers most of them with it."""
    (await api.post(deployments, deployment("a"))).ok(201)
    answer = await api.patch(f"{deployments}/a", patch, content_type=STRATEGIC_PATCH)
    assert answer.status in {422, 500}, answer.body
    assert answer.body["kind"] == "Status"


@pytest.mark.parametrize(
    "body", [b"", b"{", b'"text"', b"[]", b'{"spec": "text"}', b'{"spec": {"replicas": "2"}}']
)
async def test_an_invalid_scale_is_400(api: Api, deployments: str, body: bytes) -> None:
    (await api.post(deployments, deployment("a"))).ok(201)
    answer = await api.put(f"{deployments}/a/scale", body)
    assert answer.refusal == (400, "BadRequest")


@pytest.mark.parametrize("patch", [{"spec": "text"}, {"spec": {"replicas": "2"}}], ids=json.dumps)
async def test_a_patch_that_leaves_no_valid_scale_is_invalid(
    api: Api, deployments: str, patch: object
) -> None:
    (await api.post(deployments, deployment("a"))).ok(201)
    answer = await api.patch(f"{deployments}/a/scale", patch)
    assert answer.refusal == (422, "Invalid")


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b'"text"',
        b"[]",
        b'{"gracePeriodSeconds": "x"}',
        b'{"preconditions": []}',
        b'{"dryRun": "All"}',
        b'{"propagationPolicy": 5}',
    ],
)
async def test_invalid_options_of_a_deletion_delete_nothing(
    api: Api, deployments: str, body: bytes
) -> None:
    (await api.post(deployments, deployment("a"))).ok(201)
    assert (await api.delete(f"{deployments}/a", body)).status == 500
    (await api.get(f"{deployments}/a")).ok(200)


async def test_a_limit_beyond_64_bits_is_400(api: Api, deployments: str) -> None:
    answer = await api.get(deployments, limit=10**30)
    assert answer.refusal == (400, "BadRequest")
