"""The scheduler's writes to claims for devices: allocation, consumers, and taking back."""

from typing import Final

from gpuruntime.embedded.controllers.informers import Informers, amend
from gpuruntime.embedded.controllers.object_patches import wire
from gpuruntime.embedded.devices.inventory import DeviceInventory
from gpuruntime.embedded.kinds.pod_objects import Pod
from gpuruntime.kube.client import Client
from gpuruntime.kube.errors import ConflictError, KubeError, NotFoundError
from gpuruntime.models.encoding.json import JsonObject
from gpuruntime.models.kubernetes.devices import (
    DELETE_PROTECTION,
    RESOURCE_CLAIMS,
    Allocation,
    Consumer,
    ResourceClaim,
)
from gpuruntime.models.kubernetes.metadata import Key

ATTEMPTS: Final = 5


class DeviceWrites:
    """Each write patches exactly the version that was read."""

    def __init__(self, client: Client, informers: Informers, inventory: DeviceInventory) -> None:
        self._client = client
        self._claims = informers.device_claims
        self._inventory = inventory

    async def bind(self, key: Key, pod: Pod) -> None:
        """Enter the Pod, after the finalizer and together with a new allocation.

        After a conflict, retry on the live claim. Raise KubeError if the claim has changed so
        that the decision does not hold any more.
        """
        for attempt in range(ATTEMPTS):
            claim = self._claims.store.get(key)
            if claim is None or attempt:
                claim = await self._client.get(RESOURCE_CLAIMS, key)
            if claim.is_reserved_for(pod.metadata.uid):
                break
            allocation = self._inventory.pending(claim, pod.metadata.uid)
            _check(claim, allocation)
            try:
                await self._enter(claim, allocation, pod)
            except ConflictError:
                if attempt == ATTEMPTS - 1:
                    raise
            else:
                break
        self._inventory.release(key, pod.metadata.uid)

    async def undo(self, keys: tuple[Key, ...], pod: Pod) -> None:
        """Free devices that no claim shows, and take the Pod out of the claims."""
        for key in keys:
            self._inventory.release(key, pod.metadata.uid)
            claim = self._claims.store.get(key)
            if claim is None or not claim.is_reserved_for(pod.metadata.uid):
                continue
            others = [each for each in claim.status.reservedFor if each.uid != pod.metadata.uid]
            try:
                await self._amend(claim, {"reservedFor": [wire(each) for each in others]})
            except (ConflictError, NotFoundError):
                continue  # the controller takes it out when the Pod has ended

    async def take_back(self, claim: ResourceClaim) -> None:
        """Clear allocation and consumers, so that the claim may get devices of another node."""
        try:
            await self._amend(claim, {"allocation": None, "reservedFor": None})
        except (ConflictError, NotFoundError):
            return  # the claim's next event brings another decision

    async def _enter(self, claim: ResourceClaim, allocation: Allocation | None, pod: Pod) -> None:
        status: JsonObject = {}
        if allocation is not None:
            claim = await self._protected(claim)
            status["allocation"] = wire(allocation)
        entry = Consumer(resource="pods", name=pod.metadata.name, uid=pod.metadata.uid)
        status["reservedFor"] = [wire(each) for each in (*claim.status.reservedFor, entry)]
        await self._amend(claim, status)

    async def _protected(self, claim: ResourceClaim) -> ResourceClaim:
        """Return the claim with the finalizer that keeps it while it holds devices."""
        finalizers = claim.metadata.finalizers
        if DELETE_PROTECTION in finalizers:
            return claim
        patch: JsonObject = {"metadata": {"finalizers": [*finalizers, DELETE_PROTECTION]}}
        written = await self._client.patch(
            RESOURCE_CLAIMS,
            claim.metadata.key,
            patch,
            resource_version=claim.metadata.resourceVersion,
        )
        self._claims.write_through(written)
        return written

    async def _amend(self, claim: ResourceClaim, status: JsonObject) -> None:
        await amend(self._client, self._claims, claim, {"status": status}, subresource="status")


def _check(claim: ResourceClaim, allocation: Allocation | None) -> None:
    if claim.metadata.deletionTimestamp is not None:
        raise KubeError(f"claim {claim.metadata.name} got deleted in the meantime")
    if allocation is not None and claim.status.allocation is not None:
        raise KubeError(f"claim {claim.metadata.name} got allocated elsewhere in the meantime")
    if allocation is None and claim.status.allocation is None:
        raise KubeError(f"claim {claim.metadata.name} lost its allocation in the meantime")
