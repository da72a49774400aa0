"""Golden hashes of requests, because later versions compare their hashes with stored ones."""

from typing import Any

import pytest

from gpuruntime.operations.hashing import derived_name, request_hash
from gpuruntime.operations.options import Namespaces
from gpuruntime.operations.requests import parse_create_pool, parse_create_unit, parse_seed_stock
from tests.options import configured

PLACES = configured(Namespaces)
UNIT: dict[str, Any] = {"operationID": "op.1", "specName": "g1.1", "image": "python:3.12"}
SEED: dict[str, Any] = {
    "operationID": "op.1",
    "specName": "g1.1",
    "memory": "16Gi",
    "gpu": 1,
    "replicas": 2,
}
WALK = {
    **UNIT,
    "operationID": "unit-demo-001",
    "name": "demo-instance",
    "namespace": "runtime-instance",
    "access": {"primaryPort": "http", "scheme": "http"},
    "template": {
        "command": ["python"],
        "args": ["-m", "http.server", "8080"],
        "ports": [{"name": "http", "port": 8080}],
    },
}
EVERYTHING = {
    **WALK,
    "template": {**WALK["template"], "envs": [{"name": "A", "value": "1"}]},
    "storageMounts": [{"name": "data", "mountPath": "/data", "readOnly": True}],
    "serverless": {"requestID": "fn", "maxWorkers": 1, "framework": {"invokePath": "/run"}},
    "tenant": "team",
}


def unit_hash(**members: object) -> str:
    return request_hash(parse_create_unit({**UNIT, **members}, PLACES))


def seed_hash(**members: object) -> str:
    return request_hash(parse_seed_stock({**SEED, **members}))


GOLDEN = {
    "f180485bf9001e27b709e6060d0fcd96283d9d837e6ecbd4efe28947d33cc2d9": parse_create_unit(
        UNIT, PLACES
    ),
    "7b293f5611e7663bc397c87a949ffb00bbaea1231e1ae4b7404c5234b6fd895c": parse_create_unit(
        WALK, PLACES
    ),
    "e7b1b7332bfa19385028949cf0faf35a5755897c6b48f0443ebc3c3dac4795b3": parse_create_unit(
        EVERYTHING, PLACES
    ),
    "b77e221177a15aae4998e886caf9d7f7e8dd9943192d5f7cd7db036cff31dd9f": parse_seed_stock(SEED),
    "27b747a2c55adf95feb727f051b4891d2e13d659985c5b777a3c941b4ea2ea0b": parse_create_pool(
        {**SEED, "name": "a", "refill": "Never", "image": "x"}, PLACES
    ),
}


@pytest.mark.parametrize("golden", GOLDEN)
def test_the_hash_of_a_request_never_changes(golden: str) -> None:
    assert request_hash(GOLDEN[golden]) == golden


@pytest.mark.parametrize(
    "members",
    [
        {"operationID": "another"},
        {"namespace": "runtime-instance"},
        {"stockNamespace": "runtime-stock"},
        {"template": {}},
        {"template": {"command": []}},
        {"access": {"scheme": "http", "readiness": "tcp"}},
        {"storageMounts": []},
    ],
    ids=str,
)
def test_members_that_ask_for_nothing_new_do_not_change_the_hash(members: dict[str, Any]) -> None:
    assert unit_hash(**members) == unit_hash()


def test_equal_quantities_hash_alike_however_they_are_written() -> None:
    assert seed_hash(memory="16384Mi", cpu="0.5") == seed_hash(memory="16Gi", cpu="500m")


def test_a_default_that_is_given_hashes_like_one_that_is_left_out() -> None:
    def with_port(**port: object) -> str:
        return unit_hash(template={"ports": [{"name": "http", "port": 80, **port}]})

    assert with_port(protocol="TCP") == with_port()
    assert with_port(protocol="UDP") != with_port()


@pytest.mark.parametrize(
    "members",
    [
        {"name": "named"},
        {"image": "python:3.13"},
        {"specName": "g2"},
        {"tenant": "t"},
        {"access": {"readiness": "none"}},
        {"template": {"args": ["a"]}},
        {"template": {"args": ["a", ""]}},
        {"serverless": {"requestID": "f"}},
    ],
    ids=str,
)
def test_another_request_has_another_hash(members: dict[str, Any]) -> None:
    assert unit_hash(**members) != unit_hash()


def test_the_order_of_lists_counts() -> None:
    envs = [{"name": "A"}, {"name": "B"}]
    assert unit_hash(template={"envs": envs}) != unit_hash(template={"envs": envs[::-1]})


def test_derived_names_differ_by_operation_and_are_labels() -> None:
    assert derived_name("op.1") == "op-d5b33599d652c907a6a24058553f4e2e39cfc0c0"
    assert derived_name("op.2") != derived_name("op.1")
    assert len(derived_name("x" * 128)) == 43
