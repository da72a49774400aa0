"""The ServiceAccount `default` of every namespace, which is created again if it is deleted."""

from typing import Final

from gpuruntime.controller.controller import DONE, Controller, Result
from gpuruntime.embedded.controllers.informers import Informers
from gpuruntime.embedded.kinds.cluster_objects import SERVICE_ACCOUNTS
from gpuruntime.kube.client import Client
from gpuruntime.kube.errors import AlreadyExistsError
from gpuruntime.models.encoding.json import JsonObject
from gpuruntime.models.kubernetes.metadata import Key, PartialObject
from gpuruntime.workqueue.queue import WorkQueue

NAME: Final = "default"


class ServiceAccounts:
    def __init__(self, client: Client, informers: Informers) -> None:
        self._client = client
        self._informers = informers
        # The keys are those of namespaces.
        self._queue: WorkQueue[Key] = WorkQueue("serviceaccounts")
        self._controller = Controller("serviceaccounts", self._queue, self.reconcile, workers=1)
        informers.namespaces.add_handler(self._on_namespace)
        informers.service_accounts.add_handler(self._on_service_account)

    async def run(self) -> None:
        await self._controller.run()

    async def reconcile(self, key: Key) -> Result:
        namespace = self._informers.namespaces.store.get(key)
        if namespace is None or namespace.metadata.deletionTimestamp is not None:
            return DONE
        if Key(key.name, NAME) not in self._informers.service_accounts.store:
            await self._create(key.name)
        return DONE

    async def _create(self, namespace: str) -> None:
        metadata = {"name": NAME, "namespace": namespace}
        body: JsonObject = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}
        try:
            await self._client.create(SERVICE_ACCOUNTS, body, namespace=namespace)
        except AlreadyExistsError:
            return  # the informer is about to show it

    def _on_namespace(
        self, key: Key, old: PartialObject | None, new: PartialObject | None
    ) -> None:
        if old is None or new is None:
            self._queue.add(key)

    def _on_service_account(
        self, key: Key, _old: PartialObject | None, new: PartialObject | None
    ) -> None:
        if new is None and key.name == NAME:
            self._queue.add(Key("", key.namespace))
