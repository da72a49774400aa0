"""Deletions write the tombstone first, and then delete the object with exactly that uid."""

from typing import Final, TypeVar

from gpuruntime.concurrency.latest import Latest
from gpuruntime.kube.client import Client
from gpuruntime.kube.errors import (
    ConflictError,
    MalformedAnswerError,
    NotFoundError,
    OutcomeUnknownError,
)
from gpuruntime.models.kinds import provenance
from gpuruntime.models.kubernetes.metadata import KubernetesObject
from gpuruntime.models.kubernetes.resources import Resource
from gpuruntime.operations.tombstones import Tombstones

ObjectT = TypeVar("ObjectT", bound=KubernetesObject)

# This many of the latest deletions are remembered, for far longer than a cache lags.
MOST_REMEMBERED: Final = 4_096


class Deletions:
    """Deletes objects and remembers their uids, since caches still show them for a moment."""

    def __init__(self, client: Client, tombstones: Tombstones) -> None:
        self._client = client
        self._tombstones = tombstones
        self._deleted = Latest[str, None](MOST_REMEMBERED)

    def has_deleted(self, value: KubernetesObject) -> bool:
        return value.metadata.uid in self._deleted

    async def delete(
        self, resource: Resource[ObjectT], value: ObjectT, *, ends_operation: bool = True
    ) -> None:
        """Delete the object; another object of the same name stays untouched.

        Without `ends_operation` there is no tombstone, since the operation goes on elsewhere.

        Return once the object is gone or terminating. Lost answers are retried, so the caller must
        bound the time. Raise KubeError.
        """
        if ends_operation:
            await self._tombstones.write(resource.kind, value)
        while not provenance.is_terminating(value):
            try:
                await self._client.delete(resource, value.metadata.key, uid=value.metadata.uid)
                break
            except NotFoundError:
                break
            except ConflictError:
                # Usually another object has the name by now; only a read shows it.
                found = await self._read(resource, value)
                if found is not None and not provenance.is_terminating(found):
                    raise
                break
            except (OutcomeUnknownError, MalformedAnswerError):
                found = await self._read(resource, value)
                if found is None:
                    break
                value = found
        if not self.has_deleted(value):
            self._deleted.put(value.metadata.uid, None)

    async def _read(self, resource: Resource[ObjectT], value: ObjectT) -> ObjectT | None:
        try:
            found = await self._client.get(resource, value.metadata.key)
        except NotFoundError:
            return None
        return found if found.metadata.uid == value.metadata.uid else None
