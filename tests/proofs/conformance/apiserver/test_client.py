"""The typed client: each refusal of a server is one of our errors."""

import pytest

from gpuruntime.kube.errors import (
    AlreadyExistsError,
    BadRequestError,
    ConflictError,
    InvalidError,
    MalformedAnswerError,
    NotFoundError,
)
from gpuruntime.models.kubernetes.metadata import Key, PartialObject
from gpuruntime.models.kubernetes.resources import Resource
from tests.proofs.conformance.calls import Api, Document
from tests.proofs.conformance.definitions import widget
from tests.proofs.conformance.objects import CONFIG_MAPS, WIDGETS, config_map


async def stored(api: Api, namespace: str, name: str = "a") -> PartialObject:
    return await api.client.create(CONFIG_MAPS, config_map(name), namespace=namespace)


async def test_a_created_object_is_read_back(api: Api, namespace: str) -> None:
    made = await stored(api, namespace)
    assert made.metadata.key == Key(namespace, "a")
    assert made.metadata.creationTimestamp
    assert await api.client.get(CONFIG_MAPS, made.metadata.key) == made


async def test_a_taken_name_raises_already_exists(api: Api, namespace: str) -> None:
    await stored(api, namespace)
    with pytest.raises(AlreadyExistsError, match="configmaps"):
        await stored(api, namespace)


async def test_an_absent_object_raises_not_found(api: Api, namespace: str) -> None:
    key = Key(namespace, "a")
    with pytest.raises(NotFoundError):
        await api.client.get(CONFIG_MAPS, key)
    with pytest.raises(NotFoundError):
        await api.client.patch(CONFIG_MAPS, key, {})
    with pytest.raises(NotFoundError):
        await api.client.delete(CONFIG_MAPS, key)


async def test_a_stale_precondition_of_each_write_is_a_conflict(api: Api, namespace: str) -> None:
    seen = (await stored(api, namespace)).metadata
    await api.client.patch(CONFIG_MAPS, seen.key, {"data": {"k": "v"}})
    version = seen.resourceVersion
    with pytest.raises(ConflictError):
        await api.client.patch(CONFIG_MAPS, seen.key, {"data": {}}, resource_version=version)
    body = config_map("a", resourceVersion=version)
    with pytest.raises(ConflictError):
        await api.client.replace(CONFIG_MAPS, seen.key, body)
    with pytest.raises(ConflictError):
        await api.client.delete(CONFIG_MAPS, seen.key, resource_version=version)
    with pytest.raises(ConflictError):
        await api.client.delete(CONFIG_MAPS, seen.key, uid="another")


async def test_writes_with_current_preconditions_succeed(api: Api, namespace: str) -> None:
    first = (await stored(api, namespace)).metadata
    second = await api.client.patch(
        CONFIG_MAPS, first.key, {"data": {"k": "v"}}, resource_version=first.resourceVersion
    )
    version = second.metadata.resourceVersion
    body = config_map("a", resourceVersion=version)
    third = await api.client.replace(CONFIG_MAPS, first.key, body)
    await api.client.delete(
        CONFIG_MAPS,
        first.key,
        uid=first.uid,
        resource_version=third.metadata.resourceVersion,
        grace_seconds=0,
    )
    with pytest.raises(NotFoundError):
        await api.client.get(CONFIG_MAPS, first.key)


@pytest.mark.usefixtures("widgets")
async def test_an_object_against_its_schema_raises_invalid(api: Api, namespace: str) -> None:
    with pytest.raises(InvalidError, match=r"spec\.size"):
        await api.client.create(WIDGETS, widget("a", size=99), namespace=namespace)


@pytest.mark.usefixtures("widgets")
async def test_a_status_patch_keeps_the_generation(api: Api, namespace: str) -> None:
    made = await api.client.create(WIDGETS, widget("a"), namespace=namespace)
    after = await api.client.patch(
        WIDGETS, made.metadata.key, {"status": {"phase": "Ready"}}, subresource="status"
    )
    assert after.metadata.generation == made.metadata.generation == 1


async def test_a_list_is_read_page_by_page(api: Api, namespace: str) -> None:
    for name in ("a", "b", "c"):
        await api.client.create(
            CONFIG_MAPS, config_map(name, labels={"of": "client"}), namespace=namespace
        )
    query: Document = {"namespace": namespace, "label_selector": "of=client"}
    first = await api.client.list_page(CONFIG_MAPS, limit=2, **query)
    rest = await api.client.list_page(
        CONFIG_MAPS, limit=2, continue_token=first.continue_token, **query
    )
    names = [one.metadata.name for page in (first, rest) for one in page.items]
    assert names == ["a", "b", "c"]
    assert first.resource_version == rest.resource_version
    assert rest.continue_token == ""


async def test_a_malformed_token_raises_bad_request(api: Api, namespace: str) -> None:
    with pytest.raises(BadRequestError):
        await api.client.list_page(CONFIG_MAPS, namespace=namespace, continue_token="garbage")


async def test_an_unserved_kind_raises_a_malformed_answer(api: Api, namespace: str) -> None:
    unknown = Resource(
        group="nowhere.example.com",
        version="v1",
        kind="Thing",
        plural="things",
        type=PartialObject,
    )
    with pytest.raises(MalformedAnswerError, match="that it serves things"):
        await api.client.list_page(unknown, namespace=namespace)
