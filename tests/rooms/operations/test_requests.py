"""Request bodies are validated strictly, and all their faults are named at once."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import attrs
import hypothesis
import pytest
from hypothesis import strategies as st

from gpuruntime.models.kinds.functions import Serverless
from gpuruntime.models.kinds.pools import Refill
from gpuruntime.models.kinds.templates import Port, Template
from gpuruntime.models.kinds.units import Access
from gpuruntime.models.requests.fields import UNSET
from gpuruntime.models.requests.pools import CreatePool, SeedStock, UpdatePool
from gpuruntime.models.requests.units import CreateUnit, UpdateUnit
from gpuruntime.operations.options import Namespaces
from gpuruntime.operations.requests import (
    parse_create_pool,
    parse_create_unit,
    parse_seed_stock,
    parse_update_pool,
    parse_update_unit,
)
from gpuruntime.strict.structure import StrictError
from tests.options import configured

Parse = Callable[[object], object]
PLACES = configured(Namespaces)
UNIT: dict[str, Any] = {"operationID": "op.1", "specName": "g1.1", "image": "python:3.12"}
SEED: dict[str, Any] = {"operationID": "op.1", "specName": "g1.1", "replicas": 2}
PORT = {"name": "http", "port": 8080}


def create_unit(document: object) -> CreateUnit:
    return parse_create_unit(document, PLACES)


def create_pool(document: object) -> CreatePool:
    return parse_create_pool(document, PLACES)


PARSERS: tuple[Parse, ...] = (
    create_unit,
    create_pool,
    parse_seed_stock,
    parse_update_unit,
    parse_update_pool,
)


def problems(parse: Parse, document: object) -> dict[str, str]:
    with pytest.raises(StrictError) as caught:
        parse(document)
    fields = [problem.field for problem in caught.value.problems]
    assert len(set(fields)) == len(fields), "a field is named twice"
    return {problem.field: problem.message for problem in caught.value.problems}


def test_a_whole_request_is_read() -> None:
    request = create_unit(
        {
            **UNIT,
            "name": "demo-instance",
            "namespace": PLACES.instance,
            "stockNamespace": PLACES.stock,
            "access": {"primaryPort": "http", "scheme": "http"},
            "template": {"command": ["python"], "args": ["-m", "x"], "ports": [PORT]},
            "tenant": "team-1",
        }
    )
    assert request.template.ports == (Port(name="http", port=8080),)
    assert request.access == Access(primaryPort="http")
    assert request.name == "demo-instance"
    assert request.tenant == "team-1"


def test_an_absent_member_has_its_default() -> None:
    assert create_unit(UNIT) == CreateUnit(
        operationID="op.1", specName="g1.1", image="python:3.12"
    )
    assert create_pool(SEED).refill == Refill.ALWAYS
    assert parse_seed_stock(SEED) == SeedStock(operationID="op.1", specName="g1.1", replicas=2)


def test_every_fault_is_named_at_once() -> None:
    found = problems(
        create_unit,
        {
            "operationID": "with space",
            "name": "Upper.Case",
            "namespace": "elsewhere",
            "specName": "G1",
            "image": "",
            "template": {
                "command": "python",
                "ports": [{"name": "http", "port": 0}, {"name": "admin", "port": 65536}],
                "envs": [{"name": "UNIT_NAME", "value": "x"}, {"name": "1A", "value": 1}],
            },
            "access": {"primaryPort": "missing", "scheme": "HTTP", "readiness": "maybe"},
            "storageMounts": [{"name": "data", "mountPath": "relative"}],
            "tenant": "-",
            "surprise": True,
        },
    )
    assert sorted(found) == [
        "access.primaryPort",
        "access.readiness",
        "access.scheme",
        "image",
        "name",
        "namespace",
        "operationID",
        "specName",
        "storageMounts[0].mountPath",
        "surprise",
        "template.command",
        "template.envs[0].name",
        "template.envs[1].name",
        "template.envs[1].value",
        "template.ports[0].port",
        "template.ports[1].port",
        "tenant",
    ]


@pytest.mark.parametrize(
    ("members", "field"),
    [
        ({"operationID": ""}, "operationID"),
        ({"operationID": "x" * 129}, "operationID"),
        ({"operationID": "a/b"}, "operationID"),
        ({"operationID": "line\n"}, "operationID"),
        ({"operationID": "gpuruntime:claim"}, "operationID"),
        ({"name": ""}, "name"),
        ({"name": "x" * 64}, "name"),
        ({"name": "a.b"}, "name"),
        ({"name": "A"}, "name"),
        ({"name": "-a"}, "name"),
        ({"name": "name\n"}, "name"),
        ({"name": "op-mine"}, "name"),
        ({"name": "op-" + "0" * 40}, "name"),
        ({"name": None}, "name"),
        ({"namespace": "default"}, "namespace"),
        ({"namespace": 7}, "namespace"),
        ({"stockNamespace": PLACES.instance}, "stockNamespace"),
        ({"specName": "x" * 64}, "specName"),
        ({"image": "with space"}, "image"),
        ({"image": None}, "image"),
        ({"template": None}, "template"),
        ({"template": {"ports": [PORT, {**PORT, "port": 1}]}}, "template.ports"),
        ({"template": {"ports": [PORT, {**PORT, "name": "b"}]}}, "template.ports"),
        ({"template": {"ports": [{**PORT, "port": "80"}]}}, "template.ports[0].port"),
        ({"template": {"ports": [{**PORT, "port": 80.0}]}}, "template.ports[0].port"),
        ({"template": {"ports": [{**PORT, "port": True}]}}, "template.ports[0].port"),
        ({"template": {"envs": [{"name": "A"}, {"name": "A"}]}}, "template.envs"),
        ({"template": {"envs": [{"name": "GPU_COUNT"}]}}, "template.envs[0].name"),
        ({"template": {"envs": [{"name": "A", "value": "a\0b"}]}}, "template.envs[0].value"),
        ({"template": {"command": ["a", "\0"]}}, "template.command[1]"),
        ({"template": {"args": ["a\0"]}}, "template.args[0]"),
        ({"access": {"primaryPort": "http"}}, "access.primaryPort"),
        (
            {"access": {"primaryPort": "x"}, "template": {"ports": [PORT]}},
            "access.primaryPort",
        ),
        ({"storageMounts": [{"name": "a", "mountPath": "/proc/x"}]}, "storageMounts[0].mountPath"),
        ({"serverless": None}, "serverless"),
        ({"serverless": {"requestID": "UPPER"}}, "serverless.requestID"),
        ({"serverless": {"requestID": "f", "maxWorkers": 1001}}, "serverless.maxWorkers"),
        (
            {"serverless": {"requestID": "f", "maxWorkers": 2, "minAvailableCount": 3}},
            "serverless.minAvailableCount",
        ),
        (
            {"serverless": {"requestID": "f", "workerOf": {"name": "a", "uid": "b"}}},
            "serverless.workerOf",
        ),
        (
            {
                "serverless": {"requestID": "f"},
                "storageMounts": [{"name": "a", "mountPath": "/data"}],
            },
            "serverless.maxWorkers",
        ),
        (
            {"serverless": {"requestID": "f", "framework": {"socketPath": "/dev/shm/s"}}},
            "serverless.framework.socketPath",
        ),
        (
            {
                "serverless": {"requestID": "f", "maxWorkers": 1},
                "storageMounts": [{"name": "a", "mountPath": "/tmp"}],
            },
            "serverless.framework.socketPath",
        ),
    ],
    ids=str,
)
def test_one_bad_member_of_a_unit_is_named(members: dict[str, Any], field: str) -> None:
    assert list(problems(create_unit, {**UNIT, **members})) == [field]


def test_a_list_is_not_checked_beyond_its_bound() -> None:
    """Each check takes time, and a body of a mebibyte holds hundreds of thousands of items."""
    template = {"ports": [PORT, *[{}] * 5_000], "args": ["a"] * 5_000}
    found = problems(create_unit, {**UNIT, "template": template, "image": ""})

    assert found["template.ports"] == "must have at most 32 items, not 5001"
    assert found["template.args"] == "must have at most 256 items, not 5000"
    assert {"image", "template.ports[1].name", "template.ports[31].name"} <= set(found)
    assert "template.ports[32].name" not in found


@pytest.mark.parametrize("field", ["operationID", "specName", "image"])
def test_a_missing_member_that_a_unit_needs_is_named(field: str) -> None:
    document = {name: value for name, value in UNIT.items() if name != field}
    assert problems(create_unit, document) == {field: "is required"}


@pytest.mark.parametrize("text", ["-1", "0", "1e999", "16GiB", "", "1Ei", "1e30", "one", " 1"])
@pytest.mark.parametrize("field", ["cpu", "memory"])
def test_a_quantity_that_no_node_has_is_rejected(field: str, text: str) -> None:
    assert list(problems(parse_seed_stock, {**SEED, field: text})) == [field]


@pytest.mark.parametrize("replicas", [0, -1, 10**9, True, "2", 2.0, None])
def test_a_number_of_stock_units_out_of_bounds_is_named(replicas: object) -> None:
    assert list(problems(parse_seed_stock, {**SEED, "replicas": replicas})) == ["replicas"]


@pytest.mark.parametrize("gpu", [-1, 10**9, 1.5, "1"])
def test_a_number_of_gpus_out_of_bounds_is_named(gpu: object) -> None:
    assert list(problems(parse_seed_stock, {**SEED, "gpu": gpu})) == ["gpu"]


@pytest.mark.parametrize(
    ("members", "field"),
    [
        ({"replicas": -1}, "replicas"),
        ({"replicas": 10_001}, "replicas"),
        ({"name": "x" * 53}, "name"),
        ({"name": "op-mine"}, "name"),
        ({"namespace": PLACES.instance}, "namespace"),
        ({"refill": "Sometimes"}, "refill"),
        ({"template": {"envs": [{"name": "SPEC_NAME"}]}}, "template.envs[0].name"),
    ],
    ids=str,
)
def test_one_bad_member_of_a_pool_is_named(members: dict[str, Any], field: str) -> None:
    assert list(problems(create_pool, {**SEED, **members})) == [field]


def test_a_pool_may_have_no_replicas() -> None:
    assert create_pool({**SEED, "replicas": 0}).replicas == 0


def test_an_update_distinguishes_absent_members_from_cleared_ones() -> None:
    update = parse_update_unit({"image": None, "suspended": True, "template": {}})
    assert update == UpdateUnit(image=None, suspended=True, template=Template())
    assert update.access is UNSET


def test_an_empty_update_is_valid() -> None:
    assert parse_update_unit({}) == UpdateUnit()
    assert parse_update_pool({}) == UpdatePool()


@pytest.mark.parametrize("field", ["specName", "cpu", "memory", "gpu", "gpuProduct"])
def test_the_envelope_cannot_be_updated(field: str) -> None:
    for parse in (parse_update_unit, parse_update_pool):
        assert "cannot change" in problems(parse, {field: "x"})[field]


@pytest.mark.parametrize(
    ("members", "field"),
    [
        ({"image": 1}, "image"),
        ({"image": "a b"}, "image"),
        ({"suspended": "yes"}, "suspended"),
        ({"template": {"ports": [{"name": "a", "port": "80"}]}}, "template.ports[0].port"),
        ({"template": {"ports": [{"name": "a", "port": 0}]}}, "template.ports[0].port"),
        ({"template": []}, "template"),
        ({"storageMounts": [{"name": "a", "mountPath": "/dev/x"}]}, "storageMounts[0].mountPath"),
        ({"serverless": {"requestID": "f", "workerOf": None}}, "serverless.workerOf"),
        ({"operationID": "x"}, "operationID"),
    ],
    ids=str,
)
def test_one_bad_member_of_an_update_is_named(members: dict[str, Any], field: str) -> None:
    assert list(problems(parse_update_unit, members)) == [field]


@pytest.mark.parametrize("field", ["replicas", "refill"])
def test_required_members_of_a_pool_cannot_be_cleared(field: str) -> None:
    assert list(problems(parse_update_pool, {field: None})) == [field]


@pytest.mark.parametrize("parse", PARSERS)
@pytest.mark.parametrize("document", [None, [], "text", 1, True], ids=str)
def test_a_body_that_is_not_an_object_is_rejected(parse: Parse, document: object) -> None:
    assert problems(parse, document)[""].startswith("must be an object")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
MEMBERS = sorted({each.name for model in (CreateUnit, CreatePool) for each in attrs.fields(model)})


@hypothesis.given(document=JSON | st.dictionaries(st.sampled_from(MEMBERS), JSON))
def test_every_document_gives_a_value_or_named_problems(document: object) -> None:
    for parse in PARSERS:
        with suppress(StrictError):
            parse(document)


def test_an_unknown_function_field_is_named_with_its_path() -> None:
    found = problems(create_unit, {**UNIT, "serverless": {"requestID": "f", "workers": 1}})
    assert found == {"serverless.workers": "unknown field"}
    assert create_unit({**UNIT, "serverless": {"requestID": "f"}}).serverless == Serverless(
        requestID="f"
    )
