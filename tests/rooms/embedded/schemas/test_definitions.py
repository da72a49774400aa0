import asyncio
from typing import Any

import pytest

from gpuruntime.embedded.apiserver.server import Server
from tests.rooms.embedded.calls import ask, call, new_server

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
GADGETS = "/apis/example.com/v1/namespaces/default/gadgets"


def definition(spec: dict[str, Any]) -> dict[str, Any]:
    schema = {"type": "object", "properties": {"spec": {"type": "object", **spec}}}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
    }
    names = {"kind": "Gadget", "plural": "gadgets"}
    spec = {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [version]}
    return {"metadata": {"name": "gadgets.example.com"}, "spec": spec}


def gadget(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "example.com/v1",
        "kind": "Gadget",
        "metadata": {"name": "g"},
        "spec": spec,
    }


def serving(spec: dict[str, Any]) -> Server:
    server = new_server()
    assert call(server, "POST", DEFINITIONS, definition(spec))["metadata"]["uid"]
    return server


def test_a_rule_without_a_twin_is_refused_with_its_path() -> None:
    size = {"type": "integer", "x-kubernetes-validations": [{"rule": "self > 3"}]}
    answer = call(new_server(), "POST", DEFINITIONS, definition({"properties": {"size": size}}))
    (cause,) = answer["details"]["causes"]
    assert cause["field"].endswith(".properties[size].x-kubernetes-validations[0].rule")
    assert "Python twin" in cause["message"]


def test_an_existing_fault_does_not_prevent_a_change_elsewhere() -> None:
    server = serving({"properties": {"size": {"type": "integer"}, "note": {"type": "string"}}})
    call(server, "POST", GADGETS, gadget(size=99))
    bounded = {"size": {"type": "integer", "maximum": 5}, "note": {"type": "string"}}
    versions = definition({"properties": bounded})["spec"]["versions"]
    call(server, "PATCH", f"{DEFINITIONS}/gadgets.example.com", {"spec": {"versions": versions}})
    noted = call(server, "PATCH", f"{GADGETS}/g", {"spec": {"note": "x"}})
    assert noted["spec"] == {"size": 99, "note": "x"}
    assert call(server, "PATCH", f"{GADGETS}/g", {"spec": {"size": 98}})["code"] == 422


def test_true_does_not_equal_one() -> None:
    server = serving({"x-kubernetes-preserve-unknown-fields": True})
    made = call(server, "POST", GADGETS, gadget(anything=1))
    after = call(server, "PATCH", f"{GADGETS}/g", {"spec": {"anything": True}})
    assert after["spec"]["anything"] is True
    assert after["metadata"]["generation"] == made["metadata"]["generation"] + 1


@pytest.mark.looptime
async def test_the_watches_of_a_kind_end_with_its_definition() -> None:
    server = serving({})
    stream = server.open_stream(ask("GET", GADGETS, watch="1"))
    call(server, "DELETE", f"{DEFINITIONS}/gadgets.example.com")
    assert server.handle(ask("GET", GADGETS)).status == 404
    assert [chunk async for chunk in stream.chunks()] == []
    assert asyncio.get_running_loop().time() == 0


def test_a_kind_that_is_defined_again_has_no_history() -> None:
    server = serving({})
    version = call(server, "POST", GADGETS, gadget())["metadata"]["resourceVersion"]
    call(server, "DELETE", f"{DEFINITIONS}/gadgets.example.com")
    call(server, "POST", DEFINITIONS, definition({}))
    past = call(server, "GET", GADGETS, resourceVersion=version, resourceVersionMatch="Exact")
    assert past["code"] == 410
    assert call(server, "GET", GADGETS)["items"] == []
