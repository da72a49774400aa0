"""Any valid spec is read back unchanged, carried out, and then left alone."""

import json
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings

from gpuruntime.embedded.apiserver.server import Server
from gpuruntime.kube.transport import Request
from gpuruntime.models.definitions.crds import crds
from gpuruntime.models.encoding import codec
from gpuruntime.models.encoding.json import JsonObject
from gpuruntime.models.kinds.storages import GPUStorage
from gpuruntime.models.kinds.units import GPUUnit
from gpuruntime.models.kubernetes.secrets import SECRETS, Secret
from gpuruntime.reconcilers.functions.worker_secret_plan import patch_of_secret
from gpuruntime.reconcilers.options import UnitOptions
from gpuruntime.reconcilers.storage.children import Placing
from gpuruntime.reconcilers.unit.pod_template import Placement
from gpuruntime.strict.validation import storage_problems, unit_problems
from tests import specs
from tests.dry_runs import (
    Ask,
    as_stored,
    children_of_storage,
    children_of_unit,
    second_writes,
    secret_of,
    written_once,
)
from tests.rooms.operations.cluster import DEFINITIONS, INSTANCE, START

EXAMPLES = 100


@pytest.fixture(scope="module")
def ask() -> Ask:
    server = Server(now=lambda: START, rng=Random(7))

    def post(path: str, body: JsonObject, **query: str) -> dict[str, Any]:
        request = Request(
            method="POST",
            path=path,
            query=tuple(query.items()),
            body=json.dumps(body).encode(),
        )
        answer = server.handle(request)
        document: dict[str, Any] = json.loads(answer.body)
        assert answer.status == 201, document
        return document

    for definition in crds():
        post(DEFINITIONS, definition)
    post("/api/v1/namespaces", {"metadata": {"name": INSTANCE}})
    return lambda path, body: post(path, body, dryRun="All")


@settings(max_examples=EXAMPLES)
@given(unit=specs.units(), options=specs.options(is_restricted=True), at=specs.placements)
def test_any_spec_of_a_unit_is_carried_out_once(
    ask: Ask, unit: GPUUnit, options: UnitOptions, at: Placement
) -> None:
    assert unit_problems(unit) == ()
    assert as_stored(ask, unit).spec == unit.spec
    assert second_writes(ask, INSTANCE, children_of_unit(unit, options, at)) == []
    if unit.spec.is_function_worker:
        body = secret_of(unit, options)
        answer = ask(SECRETS.path(namespace=INSTANCE), body)
        assert patch_of_secret(codec.decode(codec.encode(answer), Secret), body) == {}


@settings(max_examples=EXAMPLES)
@given(
    storage=specs.storages(), options=specs.options(is_restricted=False), placing=specs.placings
)
def test_any_spec_of_a_storage_is_carried_out_once(
    ask: Ask, storage: GPUStorage, options: UnitOptions, placing: Placing
) -> None:
    assert storage_problems(storage) == ()
    assert as_stored(ask, storage).spec == storage.spec
    children = children_of_storage(storage, options, placing)
    assert second_writes(ask, INSTANCE, children) == []
    for resource, body in written_once(storage, options, placing):
        assert ask(resource.path(namespace=INSTANCE), body)["spec"]
