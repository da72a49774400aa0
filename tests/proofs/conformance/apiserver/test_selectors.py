"""Label and field selectors in lists, and their refusals."""

from typing import Any

import pytest
import pytest_asyncio

from tests.proofs.conformance.calls import Api
from tests.proofs.conformance.objects import EVENTS, PODS, SECRETS, config_map, named, pod


@pytest_asyncio.fixture
async def colored(api: Api, maps: str) -> str:
    """Create four ConfigMaps: a is red and big, b blue, c green and small, d has no color."""
    for name, labels in {
        "a": {"color": "red", "size": "big"},
        "b": {"color": "blue"},
        "c": {"color": "green", "size": "small"},
        "d": {"plain": ""},
    }.items():
        (await api.post(maps, config_map(name, labels={"of": "four", **labels}))).ok(201)
    return maps


async def found(api: Api, path: str, **query: Any) -> str:
    items = (await api.get(path, **query)).ok(200)["items"]
    return "".join(sorted(one["metadata"]["name"] for one in items))


@pytest.mark.parametrize(
    ("selector", "names"),
    [
        ("color=red", "a"),
        ("color==red", "a"),
        ("color!=red", "bcd"),
        ("color", "abc"),
        ("!color", "d"),
        ("color in (red,blue)", "ab"),
        ("color in (red, blue, )", "ab"),
        ("color notin (red,blue)", "cd"),
        ("color,size", "ac"),
        ("color=red,size=big", "a"),
        ("color=red,size=small", ""),
        ("color in (red,green),size notin (big)", "c"),
        ("color = red", "a"),
        ("plain=", "d"),
        ("color=pink", ""),
        ("color!=pink", "abcd"),
    ],
    ids=str,
)
async def test_labels_select_objects(api: Api, colored: str, selector: str, names: str) -> None:
    assert await found(api, colored, labelSelector=f"of=four,{selector}") == names


@pytest.mark.parametrize("operator", [">", "<"])
async def test_labels_are_compared_as_numbers(api: Api, maps: str, operator: str) -> None:
    for name in ("1", "5", "9"):
        (await api.post(maps, config_map(name, labels={"n": name}))).ok(201)
    expected = {">": "9", "<": "1"}[operator]
    assert await found(api, maps, labelSelector=f"n{operator}5") == expected


@pytest.mark.parametrize(
    "selector",
    ["color=red=blue", "color in red", "color in (red", "=red", "!", "-bad=x", "a=b c", ",,"],
    ids=str,
)
async def test_a_malformed_label_selector_is_400(api: Api, maps: str, selector: str) -> None:
    assert (await api.get(maps, labelSelector=selector)).refusal == (400, "BadRequest")


@pytest.mark.parametrize(
    ("selector", "names"),
    [
        ("metadata.name=a", "a"),
        ("metadata.name==a", "a"),
        ("metadata.name!=a", "bcd"),
        ("metadata.name=a,metadata.name=b", ""),
        ("metadata.name=nothing", ""),
    ],
    ids=str,
)
async def test_fields_select_objects(api: Api, colored: str, selector: str, names: str) -> None:
    assert await found(api, colored, fieldSelector=selector, labelSelector="of=four") == names


@pytest.mark.usefixtures("colored")
async def test_the_namespace_is_a_field(api: Api, namespace: str) -> None:
    selector = f"metadata.namespace={namespace}"
    everywhere = "/api/v1/configmaps"
    labels = "of=four"
    assert await found(api, everywhere, fieldSelector=selector, labelSelector=labels) == "abcd"


@pytest.mark.parametrize("selector", ["data.k=v", "metadata.labels=x", "name"], ids=str)
async def test_a_field_that_cannot_be_selected_is_400(api: Api, maps: str, selector: str) -> None:
    assert (await api.get(maps, fieldSelector=selector)).refusal == (400, "BadRequest")


async def test_label_and_field_selectors_must_both_match(api: Api, colored: str) -> None:
    query = {"labelSelector": "color", "fieldSelector": "metadata.name!=a"}
    assert await found(api, colored, **query) == "bc"


async def test_pods_are_selected_by_node_and_phase(api: Api, namespace: str) -> None:
    pods = PODS.path(namespace=namespace)
    for name, node_name in (("p", "nobody-runs-this-node"), ("q", "")):
        body = pod(name, nodeSelector={"nowhere": "at-all"}, nodeName=node_name)
        await api.admit(pods, body)
    assert await found(api, pods, fieldSelector="spec.nodeName=nobody-runs-this-node") == "p"
    assert await found(api, pods, fieldSelector="spec.nodeName=") == "q"
    assert await found(api, pods, fieldSelector="status.phase=Pending") == "pq"
    assert await found(api, pods, fieldSelector="status.phase=Running") == ""


async def test_secrets_are_selected_by_type(api: Api, namespace: str) -> None:
    secrets = SECRETS.path(namespace=namespace)
    (await api.post(secrets, named(SECRETS, "a"))).ok(201)
    assert "a" in await found(api, secrets, fieldSelector="type=Opaque")
    assert "a" not in await found(api, secrets, fieldSelector="type!=Opaque")


async def test_events_are_selected_by_their_object(api: Api, namespace: str) -> None:
    events = EVENTS.path(namespace=namespace)
    for name, kind in (("a", "Pod"), ("b", "Node")):
        about = {"kind": kind, "name": "x", "namespace": namespace, "uid": f"uid-{name}"}
        body = named(EVENTS, name, involvedObject=about, reason="Seen", type="Normal")
        (await api.post(events, body)).ok(201)
    assert await found(api, events, fieldSelector="involvedObject.kind=Pod") == "a"
    assert await found(api, events, fieldSelector="involvedObject.uid=uid-b") == "b"
    assert await found(api, events, fieldSelector="reason=Seen,type=Normal") == "ab"
