"""The kinds that the controllers watch: one informer each, shared by all controllers."""

import asyncio
from collections.abc import Hashable, Iterable
from random import Random
from typing import Any, Final, TypeVar

from gpuruntime.embedded.controllers.object_patches import patch_between, wire
from gpuruntime.embedded.devices.pod_claims import claims_of
from gpuruntime.embedded.kinds.cluster_objects import (
    CLAIMS,
    DEVICE_CLAIM_TEMPLATES,
    NAMESPACES,
    NODES,
    SERVICE_ACCOUNTS,
    SERVICES,
    STORAGE_CLASSES,
    VOLUMES,
    PersistentVolume,
)
from gpuruntime.embedded.kinds.pod_objects import PODS, Pod
from gpuruntime.embedded.kinds.workload_objects import DEPLOYMENTS, JOBS, REPLICA_SETS
from gpuruntime.embedded.workloads.children import BY_OWNER, owner_uids
from gpuruntime.informer.informer import Informer
from gpuruntime.informer.store import Index
from gpuruntime.kube.client import Client
from gpuruntime.models.encoding.json import JsonObject
from gpuruntime.models.kubernetes.devices import (
    DEVICE_CLASSES,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    ResourceSlice,
)
from gpuruntime.models.kubernetes.metadata import Key, KubernetesObject
from gpuruntime.models.kubernetes.resources import Resource

ObjectT = TypeVar("ObjectT", bound=KubernetesObject)

BY_CLAIM: Final = "claim"
BY_DEVICE_CLAIM: Final = "device claim"
BY_FREE_CLASS: Final = "free"
BY_JOB: Final = "job"
BY_NODE: Final = "node"


class Informers:
    """The shared informers; handlers must be added before `run`."""

    def __init__(self, client: Client, rng: Random, device_rng: Random) -> None:
        """Give devices a generator of their own: the other mirrors behave as without them."""
        self._client = client
        self._rng = rng
        indexes = {
            BY_OWNER: owner_uids,
            BY_CLAIM: _claims,
            BY_DEVICE_CLAIM: _device_claims,
            BY_JOB: _jobs,
            BY_NODE: _nodes,
        }
        self.pods = self._of(PODS, indexes)
        self.deployments = self._of(DEPLOYMENTS)
        self.replica_sets = self._of(REPLICA_SETS, {BY_OWNER: owner_uids})
        self.jobs = self._of(JOBS)
        self.nodes = self._of(NODES)
        self.claims = self._of(CLAIMS)
        self.volumes = self._of(VOLUMES, {BY_CLAIM: _claim_of, BY_FREE_CLASS: _free_class})
        self.storage_classes = self._of(STORAGE_CLASSES)
        self.namespaces = self._of(NAMESPACES)
        self.service_accounts = self._of(SERVICE_ACCOUNTS)
        self.services = self._of(SERVICES)
        self._rng = device_rng
        self.device_classes = self._of(DEVICE_CLASSES)
        self.device_slices = self._of(RESOURCE_SLICES, {BY_NODE: _slice_nodes})
        self.device_claims = self._of(RESOURCE_CLAIMS, {BY_OWNER: owner_uids})
        self.device_claim_templates = self._of(DEVICE_CLAIM_TEMPLATES)

    @property
    def all(self) -> tuple[Informer[Any], ...]:
        return (
            self.namespaces,
            self.service_accounts,
            self.nodes,
            self.storage_classes,
            self.volumes,
            self.claims,
            self.deployments,
            self.replica_sets,
            self.jobs,
            self.services,
            self.device_classes,
            self.device_slices,
            self.device_claim_templates,
            self.device_claims,
            self.pods,
        )

    @property
    def kinds(self) -> frozenset[str]:
        return frozenset(informer.resource.kind for informer in self.all)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            for informer in self.all:
                tasks.create_task(informer.run(), name=f"mirror {informer.resource}")

    async def synced(self) -> None:
        for informer in self.all:
            await informer.synced.wait()

    def _of(
        self, resource: Resource[ObjectT], indexes: dict[str, Index[ObjectT]] | None = None
    ) -> Informer[ObjectT]:
        return Informer(self._client, resource, rng=self._rng, indexes=indexes)


async def amend(
    client: Client,
    informer: Informer[ObjectT],
    value: ObjectT,
    patch: JsonObject,
    *,
    subresource: str = "",
) -> None:
    """Patch exactly the version that was read, and put the answer into the informer's store."""
    written = await client.patch(
        informer.resource,
        value.metadata.key,
        patch,
        resource_version=value.metadata.resourceVersion,
        subresource=subresource,
    )
    informer.write_through(written)


async def write_status(
    client: Client, informer: Informer[ObjectT], value: ObjectT, old: object, new: object
) -> bool:
    """Write the members of the status that differ, and return whether there were any."""
    patch = patch_between(wire(old), wire(new)) if old != new else {}
    if patch:
        await amend(client, informer, value, {"status": patch}, subresource="status")
    return bool(patch)


def _claims(pod: Pod) -> Iterable[Hashable]:
    """Index a Pod under the keys of the claims that its volumes name."""
    sources = (volume.persistentVolumeClaim for volume in pod.spec.volumes)
    return [Key(pod.metadata.namespace, source.claimName) for source in sources if source]


def _device_claims(pod: Pod) -> Iterable[Hashable]:
    """Index a Pod under the keys of its claims for devices; all generated ones must exist."""
    return [each.key for each in claims_of(pod) or ()]


def _slice_nodes(device_slice: ResourceSlice) -> Iterable[Hashable]:
    """Index a slice under the key of its node, or an empty name if it is for several."""
    return [Key("", device_slice.spec.nodeName)]


def _claim_of(volume: PersistentVolume) -> Iterable[Hashable]:
    reference = volume.spec.claimRef
    return [Key(reference.namespace, reference.name)] if reference else []


def _free_class(volume: PersistentVolume) -> Iterable[Hashable]:
    """Index a volume without a claim under its class."""
    return [] if volume.spec.claimRef else [volume.spec.storageClassName]


def _nodes(pod: Pod) -> Iterable[Hashable]:
    """Index a Pod under the key of its node, if it is assigned."""
    return [Key("", pod.spec.nodeName)] if pod.spec.nodeName else []


def _jobs(pod: Pod) -> Iterable[Hashable]:
    """Index a Pod under the key of its Job, even if the Job is gone."""
    owner = pod.metadata.controller_owner
    return [Key(pod.metadata.namespace, owner.name)] if owner and owner.kind == "Job" else []
