"""Custom kinds: each established definition gets an informer over its objects' metadata."""

import asyncio
from collections.abc import Callable
from random import Random
from typing import Any, Final

import attrs

from gpuruntime.informer.informer import Informer
from gpuruntime.kube.client import Client
from gpuruntime.models.kubernetes.conditions import Condition, condition_of
from gpuruntime.models.kubernetes.metadata import Key, ObjectMeta, PartialObject
from gpuruntime.models.kubernetes.resources import Resource


@attrs.frozen(kw_only=True, slots=True)
class Names:
    kind: str = ""
    plural: str = ""


@attrs.frozen(kw_only=True, slots=True)
class Version:
    name: str = ""
    served: bool = False
    storage: bool = False


@attrs.frozen(kw_only=True, slots=True)
class DefinitionSpec:
    group: str = ""
    scope: str = "Namespaced"
    names: Names = Names()
    versions: tuple[Version, ...] = ()


@attrs.frozen(kw_only=True, slots=True)
class DefinitionStatus:
    conditions: tuple[Condition, ...] = ()


@attrs.frozen(kw_only=True, slots=True)
class Definition:
    metadata: ObjectMeta = attrs.field(factory=ObjectMeta)
    spec: DefinitionSpec = DefinitionSpec()
    status: DefinitionStatus = DefinitionStatus()

    @property
    def is_established(self) -> bool:
        established = condition_of(self.status.conditions, "Established")
        return established is not None and established.is_true

    @property
    def resource(self) -> Resource[PartialObject]:
        version = next((each.name for each in self.spec.versions if each.storage), "")
        return Resource(
            group=self.spec.group,
            version=version,
            kind=self.spec.names.kind,
            plural=self.spec.names.plural,
            type=PartialObject,
            is_namespaced=self.spec.scope == "Namespaced",
        )


DEFINITIONS: Final = Resource(
    group="apiextensions.k8s.io",
    version="v1",
    kind="CustomResourceDefinition",
    plural="customresourcedefinitions",
    type=Definition,
    is_namespaced=False,
)


class CustomKinds:
    """The informers of custom kinds; `follow` receives each before it runs."""

    def __init__(
        self, client: Client, rng: Random, follow: Callable[[Informer[Any]], None]
    ) -> None:
        self._client = client
        self._rng = rng
        self._follow = follow
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._wake = asyncio.Event()
        self.definitions = Informer(client, DEFINITIONS, rng=rng)
        self.definitions.add_handler(self._on_definition)
        follow(self.definitions)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.definitions.run(), name="mirror definitions")
            while True:
                await self._wake.wait()
                self._wake.clear()
                self._adjust(tasks)

    def _adjust(self, tasks: asyncio.TaskGroup) -> None:
        wanted = {
            each.metadata.uid: each.resource
            for each in self.definitions.store.values()
            if each.is_established
        }
        for uid in self._tasks.keys() - wanted.keys():
            self._tasks.pop(uid).cancel()
        for uid, resource in wanted.items():
            if uid not in self._tasks:
                informer = Informer(self._client, resource, rng=self._rng)
                self._follow(informer)
                self._tasks[uid] = tasks.create_task(informer.run(), name=f"mirror {resource}")

    def _on_definition(self, _key: Key, _old: Definition | None, _new: Definition | None) -> None:
        self._wake.set()
