"""Dev installs namespaces of any names, and a policy about all others."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import attrs
import pytest

from gpuruntime.embedded.kinds.cluster_objects import NAMESPACES
from gpuruntime.embedded.nodes.seed_objects import DeviceOptions
from gpuruntime.kube.client import Client
from gpuruntime.kube.errors import ForbiddenError
from gpuruntime.models.encoding.json import JsonObject
from gpuruntime.models.kinds.labels import UNMANAGED
from gpuruntime.models.kinds.pools import STOCK_POOLS
from gpuruntime.models.kinds.storages import GPU_STORAGES
from gpuruntime.models.kinds.units import GPU_UNITS
from gpuruntime.models.kubernetes.metadata import Key
from gpuruntime.models.kubernetes.resources import Resource
from gpuruntime.roles.dev.installation import device_options, install, namespace_policy
from gpuruntime.settings.dev import DeviceSettings
from gpuruntime.settings.schema import NamespaceSettings, Settings
from gpuruntime.settings.values import Label
from tests.rooms.embedded.world import running_cluster
from tests.rooms.manifests.test_admission import spec_of

pytestmark = pytest.mark.looptime

SPECS: dict[str, JsonObject] = {
    "GPUUnit": {"specName": "g1.1", "cpu": "1", "memory": "1Gi"},
    "StockPool": {"specName": "g1.1", "replicas": 0},
    "GPUStorage": {"size": "1Gi"},
}
OTHERS = NamespaceSettings(
    stock=Label("default"), instance=Label("kube-public"), system=Label("kube-system")
)


@asynccontextmanager
async def installed(namespaces: NamespaceSettings) -> AsyncIterator[Client]:
    async with running_cluster(policies=(namespace_policy(namespaces),)) as world:
        await install(world.client, attrs.evolve(Settings(), namespaces=namespaces))
        yield world.client


async def refusal(client: Client, resource: Resource[Any], namespace: str) -> str:
    """Return the message of the refusal, or nothing if the object was created."""
    body: JsonObject = {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"name": "a"},
        "spec": SPECS[resource.kind],
    }
    try:
        await client.create(resource, body, namespace=namespace)
    except ForbiddenError as error:
        return str(error)
    return ""


@pytest.mark.parametrize(
    "namespaces", [NamespaceSettings(), OTHERS], ids=["the defaults", "that exist already"]
)
async def test_our_objects_are_admitted_where_the_roles_read_them(
    namespaces: NamespaceSettings,
) -> None:
    async with installed(namespaces) as client:
        for resource, namespace in (
            (GPU_UNITS, namespaces.stock),
            (GPU_UNITS, namespaces.instance),
            (STOCK_POOLS, namespaces.stock),
            (GPU_STORAGES, namespaces.instance),
        ):
            assert await refusal(client, resource, namespace) == ""


async def test_an_installation_over_an_earlier_one_brings_its_definitions_up_to_date() -> None:
    name = f"{GPU_UNITS.plural}.{GPU_UNITS.group}"
    path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}"
    async with running_cluster() as world:
        await install(world.client, Settings())
        before = world.raw(path)
        await install(world.client, Settings())
        assert world.raw(path) == before

        older = world.raw(path, {"spec": {"names": {"shortNames": ["older"]}}})
        assert older["spec"] != before["spec"]
        await install(world.client, Settings())
        assert world.raw(path)["spec"] == before["spec"]


@pytest.mark.parametrize(
    ("resource", "namespace", "places"),
    [
        pytest.param(GPU_UNITS, "default", "kube-public or stock", id="a unit anywhere else"),
        pytest.param(STOCK_POOLS, "default", "stock", id="a pool anywhere else"),
        pytest.param(STOCK_POOLS, "kube-public", "stock", id="a pool among the units"),
        pytest.param(GPU_STORAGES, "default", "kube-public", id="a storage anywhere else"),
        pytest.param(GPU_STORAGES, "stock", "kube-public", id="a storage among the stock"),
        pytest.param(GPU_UNITS, "system", "kube-public or stock", id="a unit beside the roles"),
    ],
)
async def test_an_object_that_no_role_reads_is_refused_with_the_right_namespace(
    resource: Resource[Any], namespace: str, places: str
) -> None:
    namespaces = NamespaceSettings(
        stock=Label("stock"), instance=Label("kube-public"), system=Label("system")
    )
    async with installed(namespaces) as client:
        said = await refusal(client, resource, namespace)
        assert f"gpuruntime does not read {resource.plural} in the namespace {namespace}" in said
        assert f": create it in {places}, or allow it with: kubectl label namespace" in said

        await client.patch(
            NAMESPACES, Key("", namespace), {"metadata": {"labels": {UNMANAGED: "true"}}}
        )
        assert await refusal(client, resource, namespace) == ""


async def test_the_words_are_those_of_the_manifests() -> None:
    [validation] = spec_of("gpuruntime-namespaces")["validations"]
    pieces = re.findall(r"'([^']*)'", validation["messageExpression"])
    async with installed(NamespaceSettings()) as client:
        said = await refusal(client, GPU_UNITS, "default")
    assert re.search(".*".join(map(re.escape, pieces)) + "$", said)


@pytest.mark.parametrize(
    ("settings", "options"),
    [
        pytest.param(DeviceSettings(), None, id="off by default"),
        pytest.param(
            DeviceSettings(count=2, className="c.test", driver="d.test", product="P"),
            DeviceOptions(count=2, class_name="c.test", driver="d.test", product="P"),
            id="configured",
        ),
    ],
)
def test_nodes_get_the_configured_devices(
    settings: DeviceSettings, options: DeviceOptions | None
) -> None:
    assert device_options(settings) == options
