"""The controllers of claims and volumes: they carry out their plans, write by write."""

from collections.abc import Iterable
from typing import Final

from gpuruntime.controller.controller import DONE, Controller, Result
from gpuruntime.embedded.controllers.event_writer import EventWriter
from gpuruntime.embedded.controllers.informers import BY_CLAIM, BY_FREE_CLASS, Informers, amend
from gpuruntime.embedded.controllers.volume_claim_plan import ClaimView, next_for_claim
from gpuruntime.embedded.controllers.volume_plan import Step, Write, next_for_volume
from gpuruntime.embedded.kinds.cluster_objects import (
    CLAIMS,
    VOLUMES,
    Claim,
    PersistentVolume,
    StorageClass,
)
from gpuruntime.embedded.kinds.pod_objects import Pod
from gpuruntime.kube.client import Client
from gpuruntime.kube.errors import AlreadyExistsError
from gpuruntime.kube.events import EventRecorder, Note
from gpuruntime.models.kubernetes.metadata import Key
from gpuruntime.workqueue.queue import WorkQueue

WORKERS: Final = 2


class Claims:
    def __init__(
        self, client: Client, informers: Informers, recorder: EventRecorder, *, volumes_root: str
    ) -> None:
        self._client = client
        self._informers = informers
        self._events = EventWriter(recorder, CLAIMS)
        self._volumes_root = volumes_root
        # The last note of each waiting claim, so that it is recorded once.
        self._waiting: dict[Key, Note | None] = {}
        self._queue: WorkQueue[Key] = WorkQueue("claims")
        self._controller = Controller("claims", self._queue, self.reconcile, workers=WORKERS)
        informers.claims.add_handler(self._on_claim)
        informers.volumes.add_handler(self._on_volume)
        informers.storage_classes.add_handler(self._on_storage_class)
        informers.pods.add_handler(self._on_pod)

    async def run(self) -> None:
        await self._controller.run()

    async def reconcile(self, key: Key) -> Result:
        claim = self._informers.claims.store.get(key)
        if claim is None:
            self._waiting.pop(key, None)
            return DONE
        step = next_for_claim(self._view(claim), volumes_root=self._volumes_root)
        if step.write is Write.NOTHING:
            self._note_waiting(claim, step)
        else:
            await self._write(claim, step)
            if step.note is not None:
                self._events.note(claim, step.note)
        return DONE

    def _view(self, claim: Claim) -> ClaimView:
        volumes, key = self._informers.volumes.store, claim.metadata.key
        named = volumes.get(Key("", claim.spec.volumeName))
        free = volumes.by_index(BY_FREE_CLASS, claim.spec.storageClassName or "")
        suitable = (*volumes.by_index(BY_CLAIM, key), *([named] if named else ()), *free)
        pods = self._informers.pods.store.by_index(BY_CLAIM, key)
        classes = self._informers.storage_classes.store.values()
        return ClaimView(
            claim=claim,
            volumes=suitable,
            classes={each.metadata.name: each for each in classes},
            is_used=any(pod.spec.nodeName and not pod.is_finished for pod in pods),
        )

    async def _write(self, claim: Claim, step: Step) -> None:
        if step.write is Write.CLAIM:
            await amend(self._client, self._informers.claims, claim, step.body)
        elif step.write is Write.CLAIM_STATUS:
            await amend(
                self._client, self._informers.claims, claim, step.body, subresource="status"
            )
        elif step.write is Write.NEW_VOLUME:
            await self._create(step)
        else:
            await write_volume(self._client, self._informers, step)

    async def _create(self, step: Step) -> None:
        try:
            created = await self._client.create(VOLUMES, step.body)
        except AlreadyExistsError:
            return  # created by a write whose answer was lost
        self._informers.volumes.write_through(created)

    def _note_waiting(self, claim: Claim, step: Step) -> None:
        key = claim.metadata.key
        if claim.spec.volumeName:
            self._waiting.pop(key, None)
            return
        if step.note is not None and self._waiting.get(key) != step.note:
            self._events.note(claim, step.note)
        self._waiting[key] = step.note

    def _on_claim(self, key: Key, old: Claim | None, new: Claim | None) -> None:
        if old != new:
            self._queue.add(key)

    def _on_volume(
        self, key: Key, old: PersistentVolume | None, new: PersistentVolume | None
    ) -> None:
        """Queue the volume's claims, and if it is free all waiting claims."""
        for volume in (old, new):
            if volume is None:
                continue
            reference = volume.spec.claimRef
            if reference is not None:
                self._queue.add(Key(reference.namespace, reference.name))
            elif volume is new:
                self._add_all(self._waiting)

    def _on_storage_class(
        self, _key: Key, _old: StorageClass | None, _new: StorageClass | None
    ) -> None:
        self._add_all(self._waiting)

    def _on_pod(self, key: Key, old: Pod | None, new: Pod | None) -> None:
        """Queue the claims of a finished Pod: one that is being deleted may now be released."""
        if old is not None and (new is None or new.is_finished):
            sources = (volume.persistentVolumeClaim for volume in old.spec.volumes)
            self._add_all(Key(key.namespace, source.claimName) for source in sources if source)

    def _add_all(self, keys: Iterable[Key]) -> None:
        for key in keys:
            self._queue.add(key)


class Volumes:
    def __init__(self, client: Client, informers: Informers) -> None:
        self._client = client
        self._informers = informers
        self._queue: WorkQueue[Key] = WorkQueue("volumes")
        self._controller = Controller("volumes", self._queue, self.reconcile, workers=WORKERS)
        informers.volumes.add_handler(self._on_volume)
        informers.claims.add_handler(self._on_claim)

    async def run(self) -> None:
        await self._controller.run()

    async def reconcile(self, key: Key) -> Result:
        volume = self._informers.volumes.store.get(key)
        if volume is not None:
            reference = volume.spec.claimRef
            wanted = Key(reference.namespace, reference.name) if reference else None
            claim = self._informers.claims.store.get(wanted) if wanted else None
            await write_volume(self._client, self._informers, next_for_volume(volume, claim))
        return DONE

    def _on_volume(
        self, key: Key, old: PersistentVolume | None, new: PersistentVolume | None
    ) -> None:
        if old != new:
            self._queue.add(key)

    def _on_claim(self, key: Key, old: Claim | None, new: Claim | None) -> None:
        for volume in self._informers.volumes.store.by_index(BY_CLAIM, key):
            self._queue.add(volume.metadata.key)


async def write_volume(client: Client, informers: Informers, step: Step) -> None:
    """Write the step's volume; if it is gone, do nothing: its event brings the next step."""
    volume = informers.volumes.store.get(Key("", step.volume))
    if volume is None:
        return
    if step.write is Write.VOLUME:
        await amend(client, informers.volumes, volume, step.body)
    elif step.write is Write.VOLUME_STATUS:
        await amend(client, informers.volumes, volume, step.body, subresource="status")
    elif step.write is Write.NO_VOLUME:
        await client.delete(VOLUMES, volume.metadata.key, uid=volume.metadata.uid)
