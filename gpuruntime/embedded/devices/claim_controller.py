"""The controller of claims for devices: it creates templates' claims, and frees unused devices.

The rules are those of 1.34. The devices of a claim are freed only in the write that removes its
last consumer: an allocated claim without consumers stays as it is, until it is deleted.
"""

from typing import Final

import attrs

from gpuruntime.controller.controller import DONE, Controller, Result
from gpuruntime.embedded.controllers.event_writer import EventWriter
from gpuruntime.embedded.controllers.informers import BY_DEVICE_CLAIM, Informers, amend
from gpuruntime.embedded.controllers.object_patches import wire
from gpuruntime.embedded.devices.pod_claims import claims_of
from gpuruntime.embedded.kinds.pod_objects import PODS, Pod, PodDeviceClaim, PodDeviceClaimStatus
from gpuruntime.embedded.workloads.children import BY_OWNER
from gpuruntime.kube.client import Client
from gpuruntime.kube.errors import ConflictError, NotFoundError
from gpuruntime.kube.events import EventRecorder, Note
from gpuruntime.models.encoding.json import JsonObject
from gpuruntime.models.kubernetes.devices import (
    DELETE_PROTECTION,
    RESOURCE_CLAIMS,
    Consumer,
    ResourceClaim,
)
from gpuruntime.models.kubernetes.metadata import Key
from gpuruntime.workqueue.queue import WorkQueue

WORKERS: Final = 2
POD_CLAIM: Final = "resource.kubernetes.io/pod-claim-name"
# A generated name has 63 characters at most, with a hyphen and five random ones at its end.
LONGEST_BASE: Final = 57


@attrs.frozen(slots=True)
class WorkKey:
    """The key of a Pod or of a claim."""

    kind: str
    key: Key


class DeviceClaims:
    def __init__(self, client: Client, informers: Informers, recorder: EventRecorder) -> None:
        self._client = client
        self._informers = informers
        self._events = EventWriter(recorder, PODS)
        self._queue: WorkQueue[WorkKey] = WorkQueue("device claims")
        self._controller = Controller(
            "device claims", self._queue, self.reconcile, workers=WORKERS
        )
        informers.pods.add_handler(self._on_pod)
        informers.device_claims.add_handler(self._on_claim)
        informers.device_claim_templates.add_handler(self._on_template)

    async def run(self) -> None:
        await self._controller.run()

    async def reconcile(self, key: WorkKey) -> Result:
        try:
            if key.kind == PODS.kind:
                await self._reconcile_pod(key.key)
            else:
                await self._reconcile_claim(key.key)
        except ConflictError:
            return DONE  # the newer version brings another event
        return DONE

    async def _reconcile_pod(self, key: Key) -> None:
        pod = self._informers.pods.store.get(key)
        if pod is None or pod.is_ending:
            return
        pod = await self._with_generated(pod)
        if not pod.spec.nodeName or pod.is_finished:
            return
        for named in claims_of(pod) or ():
            claim = self._informers.device_claims.store.get(named.key)
            if claim is None or claim.status.allocation is None:
                continue
            if not named.serves(pod, claim) or claim.is_reserved_for(pod.metadata.uid):
                continue
            entry = Consumer(resource="pods", name=pod.metadata.name, uid=pod.metadata.uid)
            await self._write_consumers(claim, (*claim.status.reservedFor, entry))

    async def _with_generated(self, pod: Pod) -> Pod:
        """Create the claims of the Pod's templates, and name them in its status."""
        known = {each.name for each in pod.status.resourceClaimStatuses}
        found = list(pod.status.resourceClaimStatuses)
        for each in pod.spec.resourceClaims:
            if each.resourceClaimTemplateName is None or each.name in known:
                continue
            claim = self._generated(pod, each) or await self._generate(pod, each)
            if claim is not None:
                name = claim.metadata.name
                found.append(PodDeviceClaimStatus(name=each.name, resourceClaimName=name))
        if len(found) == len(known):
            return pod
        status: JsonObject = {"resourceClaimStatuses": [wire(each) for each in found]}
        await amend(
            self._client, self._informers.pods, pod, {"status": status}, subresource="status"
        )
        return self._informers.pods.store.get(pod.metadata.key) or pod

    def _generated(self, pod: Pod, named: PodDeviceClaim) -> ResourceClaim | None:
        """Return the claim that an earlier attempt has created."""
        own = self._informers.device_claims.store.by_index(BY_OWNER, pod.metadata.uid)
        return next(
            (each for each in own if each.metadata.annotations.get(POD_CLAIM) == named.name), None
        )

    async def _generate(self, pod: Pod, named: PodDeviceClaim) -> ResourceClaim | None:
        metadata, name = pod.metadata, named.resourceClaimTemplateName or ""
        template = self._informers.device_claim_templates.store.get(Key(metadata.namespace, name))
        if template is None:
            why = f'PodResourceClaim {named.name}: resource claim template "{name}": '
            why += f'resourceclaimtemplate.resource.k8s.io "{name}" not found'
            self._events.note(pod, Note("FailedResourceClaimCreation", why, is_warning=True))
            return None
        owner: JsonObject = {
            "apiVersion": "v1",
            "kind": "Pod",
            "name": metadata.name,
            "uid": metadata.uid,
            "controller": True,
            "blockOwnerDeletion": True,
        }
        inner = template.spec.metadata
        body: JsonObject = {
            "apiVersion": RESOURCE_CLAIMS.api_version,
            "kind": RESOURCE_CLAIMS.kind,
            "metadata": {
                "generateName": _base_of(metadata.name, named.name),
                "namespace": metadata.namespace,
                "annotations": {**inner.annotations, POD_CLAIM: named.name},
                "labels": {**inner.labels},
                "ownerReferences": [owner],
            },
            "spec": wire(template.spec.spec),
        }
        made = await self._client.create(RESOURCE_CLAIMS, body, namespace=metadata.namespace)
        self._informers.device_claims.write_through(made)
        return made

    async def _reconcile_claim(self, key: Key) -> None:
        claim = self._informers.device_claims.store.get(key)
        if claim is None or any(_is_foreign(each) for each in claim.status.reservedFor):
            # Up to 1.35 the controller leaves a claim alone whose consumer is no Pod.
            return
        consumers = claim.status.reservedFor
        kept = tuple([each for each in consumers if await self._is_used_by(claim, each)])
        if len(kept) < len(consumers):
            claim = await self._write_consumers(claim, kept)
        elif not kept and claim.metadata.deletionTimestamp is not None:
            claim = await self._free(claim)
        if not kept:
            await self._delete_generated(claim)

    async def _is_used_by(self, claim: ResourceClaim, consumer: Consumer) -> bool:
        """Return whether the Pod exists and may still run; a Pod without an event is looked up."""
        key = Key(claim.metadata.namespace, consumer.name)
        pod = self._informers.pods.store.get(key)
        if pod is None:
            try:
                pod = await self._client.get(PODS, key)
            except NotFoundError:
                return False
        return pod.metadata.uid == consumer.uid and not _is_done(pod)

    async def _write_consumers(
        self, claim: ResourceClaim, consumers: tuple[Consumer, ...]
    ) -> ResourceClaim:
        status: JsonObject = {"reservedFor": [wire(each) for each in consumers] or None}
        is_protected = DELETE_PROTECTION in claim.metadata.finalizers
        if not consumers and is_protected:
            status["allocation"] = None
        claim = await self._amend(claim, {"status": status}, subresource="status")
        return claim if consumers or not is_protected else await self._unprotect(claim)

    async def _free(self, claim: ResourceClaim) -> ResourceClaim:
        """Free the devices of a terminating claim without consumers, and let it end."""
        if DELETE_PROTECTION not in claim.metadata.finalizers:
            return claim
        if claim.status.allocation is not None:
            status: JsonObject = {"status": {"allocation": None}}
            claim = await self._amend(claim, status, subresource="status")
        return await self._unprotect(claim)

    async def _unprotect(self, claim: ResourceClaim) -> ResourceClaim:
        kept = [each for each in claim.metadata.finalizers if each != DELETE_PROTECTION]
        return await self._amend(claim, {"metadata": {"finalizers": kept}})

    async def _amend(
        self, claim: ResourceClaim, patch: JsonObject, *, subresource: str = ""
    ) -> ResourceClaim:
        written = await self._client.patch(
            RESOURCE_CLAIMS,
            claim.metadata.key,
            patch,
            resource_version=claim.metadata.resourceVersion,
            subresource=subresource,
        )
        is_removed = written.metadata.deletionTimestamp and not written.metadata.finalizers
        if not is_removed:
            self._informers.device_claims.write_through(written)
        return written

    async def _delete_generated(self, claim: ResourceClaim) -> None:
        """Delete a generated claim whose Pod has ended; a deleted Pod's claim is collected."""
        owner = claim.metadata.controller_owner
        if owner is None or owner.kind != "Pod" or claim.metadata.deletionTimestamp is not None:
            return
        pod = self._informers.pods.store.get(Key(claim.metadata.namespace, owner.name))
        if pod is not None and (pod.metadata.uid != owner.uid or _is_done(pod)):
            await self._client.delete(RESOURCE_CLAIMS, claim.metadata.key, uid=claim.metadata.uid)

    def _on_pod(self, key: Key, old: Pod | None, new: Pod | None) -> None:
        """Look at the Pod's own claims only: an entry of a claim that it does not name stays."""
        pod = new or old
        if pod is None or not pod.spec.resourceClaims:
            return
        if new is not None:
            self._queue.add(WorkKey(PODS.kind, key))
        is_replaced = old is not None and new is not None and old.metadata.uid != new.metadata.uid
        for each in (old, new):
            if each is not None and (new is None or is_replaced or _is_done(each)):
                for named in claims_of(each) or ():
                    self._queue.add(WorkKey(RESOURCE_CLAIMS.kind, named.key))

    def _on_claim(self, key: Key, _old: ResourceClaim | None, new: ResourceClaim | None) -> None:
        if new is not None:
            self._queue.add(WorkKey(RESOURCE_CLAIMS.kind, key))
        for pod in self._informers.pods.store.by_index(BY_DEVICE_CLAIM, key):
            self._queue.add(WorkKey(PODS.kind, pod.metadata.key))

    def _on_template(self, key: Key, _old: object, new: object | None) -> None:
        """Look at the Pods that wait for the template."""
        for pod in self._informers.pods.store.values() if new is not None else ():
            if pod.metadata.namespace == key.namespace and any(
                each.resourceClaimTemplateName == key.name for each in pod.spec.resourceClaims
            ):
                self._queue.add(WorkKey(PODS.kind, pod.metadata.key))


def _is_done(pod: Pod) -> bool:
    """Return whether the Pod will not run any more: it ended, or was deleted unassigned."""
    return pod.is_finished or (pod.is_ending and not pod.spec.nodeName)


def _is_foreign(consumer: Consumer) -> bool:
    return bool(consumer.apiGroup) or consumer.resource != "pods"


def _base_of(pod_name: str, claim_name: str) -> str:
    """Return the prefix of a generated name; long names are shortened in proportion."""
    base = f"{pod_name}-{claim_name}-"
    if len(base) <= LONGEST_BASE:
        return base
    pod_length = len(pod_name) * LONGEST_BASE // len(base)
    claim_length = len(claim_name) * LONGEST_BASE // len(base)
    return f"{pod_name[:pod_length]}-{claim_name[:claim_length]}"
