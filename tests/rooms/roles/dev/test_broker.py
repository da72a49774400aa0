"""If the broker has moved, only Secrets and Pods of workers are deleted."""

import pytest

from gpuruntime.kube.client import Client
from gpuruntime.models.encoding.json import JsonObject
from gpuruntime.models.kinds.units import GPUUnit, GPUUnitSpec
from gpuruntime.models.kubernetes.metadata import ObjectMeta
from gpuruntime.models.kubernetes.pods import PODS
from gpuruntime.models.kubernetes.secrets import SECRETS
from gpuruntime.models.requests.secrets import CreateSecret
from gpuruntime.operations.secrets import Secrets
from gpuruntime.reconcilers.functions.worker_secret_plan import secret_body
from gpuruntime.reconcilers.unit.pod_template import labels_of
from gpuruntime.roles.dev.broker import end_restored_workers
from tests.rooms.operations.cluster import INSTANCE, Cluster, replica

pytestmark = pytest.mark.looptime

WORKER, OTHER = (
    GPUUnit(
        metadata=ObjectMeta(name=name, namespace=INSTANCE, uid=f"{name}-uid"),
        spec=GPUUnitSpec(specName="g1.1"),
    )
    for name in ("worker", "other")
)
TENANTS = [
    CreateSecret(name="hub", data={"token": "sesame"}, tenant="team-a"),
    CreateSecret(name="hub", data={"token": "sesame"}),
]


async def make_pod(client: Client, unit: GPUUnit) -> None:
    body: JsonObject = {
        "metadata": {"name": unit.metadata.name, "labels": dict(labels_of(unit))},
        "spec": {"containers": [{"name": "c", "image": "example/c:1"}]},
    }
    await client.create(PODS, body, namespace=INSTANCE)


async def test_a_moved_broker_ends_workers_and_leaves_secrets_of_tenants() -> None:
    async with replica(Cluster()) as made:
        client, secrets = Client(made.transport), Secrets(made.context)
        for request in TENANTS:
            await secrets.store(request)
        kept = {each.metadata.name for each in (await client.list_page(SECRETS)).items}
        assert len(kept) == len(TENANTS)
        body = secret_body(WORKER, {"worker.yaml": "eA=="}, None, None)
        await client.create(SECRETS, body, namespace=INSTANCE)
        for unit in (WORKER, OTHER):
            await make_pod(client, unit)

        await end_restored_workers(client, INSTANCE)
        left = (await client.list_page(SECRETS)).items
        assert {each.metadata.name for each in left} == kept
        pods = (await client.list_page(PODS)).items
        assert [each.metadata.name for each in pods] == ["other"]
