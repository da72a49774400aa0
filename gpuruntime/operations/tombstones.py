"""Tombstones record finished operations, for longer than their objects exist.

Each operation has one ConfigMap in the system namespace, named by the hash of its operationID. It
is written before the object is deleted. So a process that misses the object can find out why.
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
    DeletedObject,
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
        """Return the tombstone, always read live, or None."""
        try:
            found = await self._client.get(CONFIG_MAPS, self.key_of(operation_id))
        except NotFoundError:
            return None
        return tombstone_of(found)

    async def write(self, kind: str, value: KubernetesObject) -> None:
        """Write the tombstone of an object; writing it again only restarts the retention.

        Nothing is written for an object that no operation created.
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
        buried = DeletedObject(
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
