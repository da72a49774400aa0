"""The generation counts changes of the spec; kinds without one have no generation."""

from tests.proofs.conformance.calls import Api, Document
from tests.proofs.conformance.definitions import gadget, widget
from tests.proofs.conformance.objects import DEPLOYMENTS, config_map, deployment


async def generation_after(api: Api, path: str, patch: Document) -> int:
    return int((await api.patch(path, patch)).ok(200)["metadata"]["generation"])


async def test_a_custom_object_begins_with_generation_one(api: Api, widgets: str) -> None:
    made = (await api.post(widgets, widget("a", metadata={"generation": 7}))).ok(201)
    assert made["metadata"]["generation"] == 1


async def test_a_change_of_the_spec_raises_the_generation(api: Api, widgets: str) -> None:
    (await api.post(widgets, widget("a"))).ok(201)
    assert await generation_after(api, f"{widgets}/a", {"spec": {"size": 2}}) == 2


async def test_a_change_of_metadata_keeps_the_generation(api: Api, widgets: str) -> None:
    (await api.post(widgets, widget("a"))).ok(201)
    patch = {"metadata": {"labels": {"k": "v"}, "annotations": {"k": "v"}}}
    assert await generation_after(api, f"{widgets}/a", patch) == 1


async def test_a_change_of_the_status_keeps_the_generation(api: Api, widgets: str) -> None:
    (await api.post(widgets, widget("a"))).ok(201)
    patch = {"status": {"phase": "Ready"}}
    assert await generation_after(api, f"{widgets}/a/status", patch) == 1


async def test_a_client_cannot_set_the_generation(api: Api, widgets: str) -> None:
    (await api.post(widgets, widget("a"))).ok(201)
    patch = {"metadata": {"generation": 7}}
    assert await generation_after(api, f"{widgets}/a", patch) == 1


async def test_the_deletion_mark_raises_the_generation(api: Api, widgets: str) -> None:
    (await api.post(widgets, widget("a", metadata={"finalizers": ["example.com/a"]}))).ok(201)
    answer = (await api.delete(f"{widgets}/a")).ok()
    assert answer["metadata"]["generation"] == 2


async def test_without_a_status_subresource_every_change_outside_metadata_counts(
    api: Api, gadgets: str, unique: str
) -> None:
    (await api.post(gadgets, gadget(unique))).ok(201)
    path = f"{gadgets}/{unique}"
    assert await generation_after(api, path, {"status": {"phase": "Ready"}}) == 2
    assert await generation_after(api, path, {"anything": 1}) == 3
    assert await generation_after(api, path, {"metadata": {"labels": {"k": "v"}}}) == 3


async def test_the_spec_of_a_deployment_counts_and_its_labels_do_not(
    api: Api, namespace: str
) -> None:
    path = DEPLOYMENTS.path(namespace=namespace)
    made = (await api.post(path, deployment("d", replicas=0, paused=True))).ok(201)
    assert made["metadata"]["generation"] == 1
    assert await generation_after(api, f"{path}/d", {"metadata": {"labels": {"k": "v"}}}) == 1
    assert await generation_after(api, f"{path}/d", {"spec": {"replicas": 1}}) == 2


async def test_a_config_map_has_no_generation(api: Api, maps: str) -> None:
    (await api.post(maps, config_map("a"))).ok(201)
    after = (await api.patch(f"{maps}/a", {"data": {"k": "v"}})).ok()
    assert "generation" not in after["metadata"]
