"""The CEL rules of our kinds: every server allows and denies what their twins do."""

from typing import Any

import pytest
import pytest_asyncio

from gpuruntime.models.crds import crds
from tests.conformance.calls import Api, Document
from tests.conformance.definitions import define
from tests.models.rule_cases import CASES, RuleCase, unit

PLURALS = {"GPUUnit": "gpuunits", "StockPool": "stockpools"}


@pytest_asyncio.fixture
async def kinds(api: Api) -> None:
    """Our own definitions, as they are installed."""
    for one in crds():
        await define(api, dict[str, Any](one))


def collection(document: Document, namespace: str) -> str:
    plural = PLURALS[document["kind"]]
    return f"/apis/{document['apiVersion']}/namespaces/{namespace}/{plural}"


def placed(document: Document, namespace: str, **metadata: Any) -> Document:
    return {
        **document,
        "metadata": {**document["metadata"], "namespace": namespace, **metadata},
    }


@pytest.mark.usefixtures("kinds")
@pytest.mark.parametrize("case", CASES, ids=str)
async def test_a_write_is_allowed_or_denied(api: Api, namespace: str, case: RuleCase) -> None:
    path = collection(case.document, namespace)
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


@pytest.mark.usefixtures("kinds")
async def test_a_status_is_patched_past_a_spec_that_no_rule_would_let_in(
    api: Api, namespace: str
) -> None:
    """A bad quantity reaches its controller, which has to say so."""
    path = collection(unit(), namespace)
    (await api.post(path, placed(unit(memory="not-a-quantity"), namespace))).ok(201)
    patch = {"status": {"phase": "Failed"}}
    after = (await api.patch(f"{path}/unit/status", patch)).ok(200)
    assert after["status"]["phase"] == "Failed"
