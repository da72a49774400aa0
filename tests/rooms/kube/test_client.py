"""Verbs become requests, answers become values, and every write passes the fence."""

import asyncio
from math import inf
from typing import Any

import pytest

from gpuruntime.kube.client import Client
from gpuruntime.kube.errors import (
    BadRequestError,
    ForbiddenError,
    KubeError,
    NotLeadingError,
    OutcomeUnknownError,
    UnreachableError,
)
from gpuruntime.kube.transport import JSON, MERGE_PATCH, Request, Response
from gpuruntime.models.encoding import codec
from gpuruntime.models.encoding.json import JsonObject
from gpuruntime.models.kubernetes.metadata import Key
from gpuruntime.models.kubernetes.resources import Resource
from tests.rooms.kube.things import (
    KEY,
    THING_METADATA,
    THINGS,
    ScriptedTransport,
    always,
    answer,
    failure,
    thing,
    thing_list,
)

WRITES = ["create", "replace", "patch", "delete"]


async def call(client: Client, verb: str) -> None:
    match verb:
        case "create":
            await client.create(THINGS, thing(), namespace="lab")
        case "replace":
            await client.replace(THINGS, KEY, thing())
        case "patch":
            await client.patch(THINGS, KEY, {"spec": {"size": 2}})
        case _:
            await client.delete(THINGS, KEY)


async def test_get_decodes_the_answer_into_the_resources_type() -> None:
    transport = always(answer(thing(size=3)))
    found = await Client(transport).get(THINGS, KEY)
    assert found.spec.size == 3
    assert found.metadata.key == KEY
    assert transport.requests[0].path == "/apis/test.example/v1/namespaces/lab/things/anvil"


async def test_a_list_sends_only_what_was_given_and_returns_its_page() -> None:
    page = thing_list(thing("a"), thing("b"), version="12", token="more")
    transport = always(answer(page))
    found = await Client(transport).list_page(
        THINGS, namespace="lab", label_selector="a=b", limit=2, resource_version="5"
    )
    assert [item.metadata.name for item in found.items] == ["a", "b"]
    assert (found.resource_version, found.continue_token) == ("12", "more")
    assert dict(transport.requests[0].query) == {
        "labelSelector": "a=b",
        "limit": "2",
        "resourceVersion": "5",
    }


async def test_a_continued_list_sends_no_version_beside_its_token() -> None:
    transport = always(answer(thing_list()))
    await Client(transport).list_page(THINGS, continue_token="more", resource_version="5")
    assert dict(transport.requests[0].query) == {"limit": "500", "continue": "more"}


async def test_a_null_in_one_item_reads_as_absent() -> None:
    odd: dict[str, Any] = {**thing("odd"), "spec": None}
    found = await Client(always(answer(thing_list(thing("a", size=4), odd)))).list_page(THINGS)
    assert [item.spec.size for item in found.items] == [4, 0]


async def test_null_items_and_metadata_read_as_an_empty_page() -> None:
    empty = {"kind": "ThingList", "metadata": None, "items": None}
    found = await Client(always(answer(empty))).list_page(THINGS)
    assert (found.items, found.resource_version, found.continue_token) == ([], "", "")


async def test_partial_objects_are_requested_as_metadata_only() -> None:
    body = {"kind": "PartialObjectMetadataList", "metadata": {}, "items": [thing()]}
    transport = always(answer(body))
    found = await Client(transport).list_page(THING_METADATA)
    assert found.items[0].metadata.key == KEY
    assert transport.requests[0].accept == (
        f"{JSON};as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
    )


async def test_a_patch_is_a_merge_patch_that_carries_its_guard() -> None:
    transport = always(answer(thing()))
    patch: JsonObject = {"metadata": {"labels": {"a": "b"}}}
    await Client(transport).patch(THINGS, KEY, patch, resource_version="7", subresource="status")
    sent = transport.requests[0]
    assert sent.path.endswith("/things/anvil/status")
    assert sent.content_type == MERGE_PATCH
    assert codec.decode_object(sent.body or b"") == {
        "metadata": {"labels": {"a": "b"}, "resourceVersion": "7"}
    }
    assert patch == {"metadata": {"labels": {"a": "b"}}}


async def test_a_delete_carries_uid_and_version_as_preconditions() -> None:
    transport = always(answer({"kind": "Status", "status": "Success"}))
    await Client(transport).delete(THINGS, KEY, uid="u1", resource_version="7", grace_seconds=0)
    options = codec.decode_object(transport.requests[0].body or b"")
    assert options["preconditions"] == {"uid": "u1", "resourceVersion": "7"}
    assert options["gracePeriodSeconds"] == 0
    assert options["propagationPolicy"] == "Background"


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "%2e"])
async def test_a_name_that_would_address_another_path_is_refused_unsent(name: str) -> None:
    transport = always(answer(thing()))
    with pytest.raises(BadRequestError, match="no name for things"):
        await Client(transport).delete(THINGS, Key("lab", name))
    assert transport.requests == []


async def test_an_empty_namespace_of_a_namespaced_object_is_refused_unsent() -> None:
    transport = always(answer(thing()))
    with pytest.raises(BadRequestError):
        await Client(transport).get(THINGS, Key("", "anvil"))
    assert transport.requests == []


async def test_a_cluster_scoped_object_has_no_namespace_in_its_path() -> None:
    nodes = Resource(
        group="", version="v1", kind="Thing", plural="nodes", type=THINGS.type, is_namespaced=False
    )
    transport = always(answer(thing()))
    await Client(transport).get(nodes, Key("", "n1"))
    assert transport.requests[0].path == "/api/v1/nodes/n1"


@pytest.mark.parametrize("verb", WRITES)
async def test_no_write_is_sent_while_the_fence_is_shut(verb: str) -> None:
    def fence() -> None:
        raise NotLeadingError("the lease is not ours")

    transport = always(answer(thing()))
    client = Client(transport, fence=fence)
    with pytest.raises(NotLeadingError):
        await call(client, verb)
    assert transport.requests == []
    assert (await client.get(THINGS, KEY)).metadata.key == KEY


@pytest.mark.parametrize("verb", WRITES)
async def test_a_write_hands_the_fence_to_a_transport_that_waits(verb: str) -> None:
    fenced = []
    transport = always(answer(thing()))
    await call(Client(transport, fence=lambda: fenced.append(verb)), verb)
    assert fenced == [verb]
    assert transport.requests[0].fence is not None


@pytest.mark.parametrize("verb", WRITES)
async def test_a_write_whose_answer_is_lost_has_an_unknown_outcome(verb: str) -> None:
    client = Client(always(OutcomeUnknownError("no answer")))
    with pytest.raises(OutcomeUnknownError, match=f"{verb} things.test.example lab/anvil"):
        await call(client, verb)


@pytest.mark.parametrize(
    "lost",
    [OutcomeUnknownError("no answer"), failure(504, "Timeout", "late")],
    ids=["no answer", "gateway timeout"],
)
@pytest.mark.parametrize("verb", WRITES)
async def test_a_write_that_may_have_happened_leaves_a_doubt(
    verb: str, lost: Response | OutcomeUnknownError
) -> None:
    client = Client(always(lost))
    with pytest.raises(OutcomeUnknownError):
        await call(client, verb)
    assert client.last_doubt <= asyncio.get_running_loop().time()
    assert client.last_doubt > -inf


async def test_a_cancelled_write_leaves_a_doubt() -> None:
    async def never(_: Request) -> Response:
        await asyncio.Event().wait()
        raise AssertionError

    client = Client(ScriptedTransport(never))
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await call(client, "create")
    assert client.last_doubt > -inf


async def test_a_refused_write_or_a_read_leaves_no_doubt() -> None:
    refusing = Client(always(failure(409, "Conflict", "changed meanwhile")))
    with pytest.raises(KubeError):
        await call(refusing, "patch")
    reading = Client(always(OutcomeUnknownError("no answer")))
    with pytest.raises(UnreachableError):
        await reading.get(THINGS, KEY)
    assert refusing.last_doubt == reading.last_doubt == -inf


async def test_a_read_whose_answer_is_lost_is_unreachable() -> None:
    client = Client(always(OutcomeUnknownError("no answer")))
    with pytest.raises(UnreachableError, match=r"get things\.test\.example lab/anvil: no answer"):
        await client.get(THINGS, KEY)
    with pytest.raises(UnreachableError):
        await client.list_page(THINGS)


async def test_a_missing_right_for_one_kind_does_not_affect_others() -> None:
    async def script(request: Request) -> Response:
        is_allowed = "/things" in request.path
        return answer(thing()) if is_allowed else failure(403, "Forbidden", "no right to pods")

    pods = Resource(group="", version="v1", kind="Pod", plural="pods", type=THINGS.type)
    client = Client(ScriptedTransport(script))
    with pytest.raises(ForbiddenError, match="get pods lab/anvil: 403 Forbidden: no right"):
        await client.get(pods, KEY)
    assert (await client.get(THINGS, KEY)).metadata.key == KEY


class Ledger:
    def __init__(self) -> None:
        self.counted: list[tuple[str, dict[str, str]]] = []

    def count(self, name: str, _amount: float = 1, /, **labels: str) -> None:
        self.counted.append((name, labels))

    def gauge(self, name: str, value: float, /, **labels: str) -> None:
        pass

    def observe(self, name: str, seconds: float, /, **labels: str) -> None:
        pass


async def test_every_request_is_counted_by_verb_resource_and_outcome() -> None:
    ledger = Ledger()
    await Client(always(answer(thing())), meter=ledger).get(THINGS, KEY)
    with pytest.raises(UnreachableError):
        await Client(always(UnreachableError("down")), meter=ledger).delete(THINGS, KEY)
    labels = {"resource": "things.test.example"}
    assert ledger.counted == [
        ("kube_requests_total", {"verb": "get", "code": "200", **labels}),
        ("kube_requests_total", {"verb": "delete", "code": "UnreachableError", **labels}),
    ]
