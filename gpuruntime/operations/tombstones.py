"""The memory of finished operations: an object's deletion is known longer than the object.

One ConfigMap an operation, in the system namespace, named by the hash of the operationID. It is
written before the object is deleted, so that whoever sees the object gone can see why.
"""

from collections.abc import Callable
from datetime import datetime, timedelta

from gpuruntime.kube.client import Client
from gpuruntime.kube.errors import AlreadyExistsError, NotFoundError
from gpuruntime.models.encoding import codec
from gpuruntime.models.encoding.json import JsonObject
from gpuruntime.models.kinds import labels, provenance
from gpuruntime.models.kinds.tombstones import (
    EXPIRES_AT,
    TOMBSTONE_APP,
    Buried,
    Tombstone,
    tombstone_of,
)
from gpuruntime.models.kubernetes.cluster import CONFIG_MAPS
from gpuruntime.models.kubernetes.metadata import Key, KubernetesObject
from gpuruntime.models.kubernetes.timestamps import rfc3339
from gpuruntime.operations.hashing import operation_digest


class Tombstones:
    def __init__(
        self,
        client: Client,
        *,
        namespace: str,
        retention_seconds: float,
        now: Callable[[], datetime],
    ) -> None:
        self._client = client
        self._namespace = namespace
        self._retention = timedelta(seconds=retention_seconds)
        self._now = now

    async def find(self, operation_id: str) -> Tombstone | None:
        """Always a live read."""
        try:
            found = await self._client.get(CONFIG_MAPS, self.key_of(operation_id))
        except NotFoundError:
            return None
        return tombstone_of(found)

    async def write(self, kind: str, value: KubernetesObject) -> None:
        """Doing it again, also after a lost answer, only counts the retention anew.

        Nothing is written for an object that came without an operation.
        """
        operation_id = provenance.operation_of(value)
        if not operation_id:
            return
        body = self._body(operation_id, kind, value)
        try:
            await self._client.create(CONFIG_MAPS, body, namespace=self._namespace)
        except AlreadyExistsError:
            await self._client.patch(CONFIG_MAPS, self.key_of(operation_id), body)

    def key_of(self, operation_id: str) -> Key:
        return Key(self._namespace, f"operation-{operation_digest(operation_id)}")

    def _body(self, operation_id: str, kind: str, value: KubernetesObject) -> JsonObject:
        buried = Buried(
            kind=kind,
            namespace=value.metadata.namespace,
            name=value.metadata.name,
            uid=value.metadata.uid,
            requestHash=provenance.hash_of(value),
        )
        return {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "name": self.key_of(operation_id).name,
                "labels": {
                    labels.APP_NAME: TOMBSTONE_APP,
                    labels.MANAGED_BY: labels.MANAGER,
                },
                "annotations": {
                    labels.OPERATION_ID: operation_id,
                    EXPIRES_AT: rfc3339(self._now() + self._retention),
                },
            },
            "data": {buried.uid: codec.encode(codec.to_json(buried)).decode()},
        }
