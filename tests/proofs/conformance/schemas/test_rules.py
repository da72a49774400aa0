"""The CEL rules of our kinds: every server decides as their Python twins do."""

from typing import Any

import pytest

from gpuruntime.models.definitions.crds import crds
from tests.proofs.conformance.calls import Api, Document
from tests.proofs.conformance.definitions import define
from tests.rooms.models.rule_cases import CASES, RuleCase, unit

# The definitions as they are installed.
DEFINITIONS = {one["spec"]["names"]["kind"]: one for one in map(dict[str, Any], crds())}


async def collection(api: Api, kind: str, namespace: str) -> str:
    """Define the kind, and return the path of its objects in the namespace."""
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


async def test_a_status_can_be_patched_although_the_spec_breaks_a_rule(
    api: Api, namespace: str
) -> None:
    """A malformed quantity reaches its controller, which must report it in the status."""
    path = await collection(api, "GPUUnit", namespace)
    (await api.post(path, placed(unit(memory="not-a-quantity"), namespace))).ok(201)
    patch = {"status": {"phase": "Failed"}}
    after = (await api.patch(f"{path}/unit/status", patch)).ok(200)
    assert after["status"]["phase"] == "Failed"
