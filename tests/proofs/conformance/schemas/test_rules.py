"""The CEL rules of our kinds: every server allows and denies what their twins do."""

from typing import Any

import pytest

from gpuruntime.models.definitions.crds import crds
from tests.proofs.conformance.calls import Api, Document
from tests.proofs.conformance.definitions import define
from tests.rooms.models.rule_cases import CASES, RuleCase, unit

# As they are installed.
DEFINITIONS = {one["spec"]["names"]["kind"]: one for one in map(dict[str, Any], crds())}


async def collection(api: Api, kind: str, namespace: str) -> str:
    """The path of the kind's objects, which is served from now on."""
    await define(api, DEFINITIONS[kind])
    spec = DEFINITIONS[kind]["spec"]
    api_version = f"{spec['group']}/{spec['versions'][0]['name']}"
    return f"/apis/{api_version}/namespaces/{namespace}/{spec['names']['plural']}"


def placed(document: Document, namespace: str, **metadata: Any) -> Document:
    return {
        **document,
        "metadata": {**document["metadata"], "namespace": namespace, **metadata},
    }


@pytest.mark.parametrize("case", CASES, ids=str)
async def test_a_write_is_allowed_or_denied(api: Api, namespace: str, case: RuleCase) -> None:
    path = await collection(api, case.document["kind"], namespace)
    if case.old is None:
        answer = await api.post(path, placed(case.document, namespace))
    else:
        old = (await api.post(path, placed(case.old, namespace))).ok(201)
        version = old["metadata"]["resourceVersion"]
        body = placed(case.document, namespace, resourceVersion=version)
        answer = await api.put(f"{path}/{old['metadata']['name']}", body)
    if case.denied:
        assert case.denied in {field for field, _ in answer.causes}
    else:
        answer.ok()


async def test_a_status_is_patched_past_a_spec_that_no_rule_would_let_in(
    api: Api, namespace: str
) -> None:
    """A bad quantity reaches its controller, which has to say so."""
    path = await collection(api, "GPUUnit", namespace)
    (await api.post(path, placed(unit(memory="not-a-quantity"), namespace))).ok(201)
    patch = {"status": {"phase": "Failed"}}
    after = (await api.patch(f"{path}/unit/status", patch)).ok(200)
    assert after["status"]["phase"] == "Failed"
